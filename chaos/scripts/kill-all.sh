#!/bin/sh
# Kill every broker at once with -9, and start them again: kill-all.sh [SECONDS]
. "$(dirname "$0")/common.sh"
for broker in $(services broker); do docker kill "$(container "$broker")" >/dev/null; done
echo "all brokers are killed"
sleep "${1:-5}"
for broker in $(services broker); do again "$broker" 0; done
