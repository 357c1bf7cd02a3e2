#!/bin/sh
# Kill the leader of a partition with -9, and start it again: kill-leader.sh TOPIC [PARTITION] [SECONDS]
. "$(dirname "$0")/common.sh"
[ $# -ge 1 ] || { echo "usage: kill-leader.sh TOPIC [PARTITION] [SECONDS]" >&2; exit 2; }
victim=$(leader "$1" "${2:-0}")
[ -n "$victim" ] || { echo "error: nobody leads partition ${2:-0} of $1" >&2; exit 1; }
docker kill "$(container "broker$victim")" >/dev/null
echo "broker$victim, which led partition ${2:-0} of $1, is killed"
again "broker$victim" "${3:-10}"
