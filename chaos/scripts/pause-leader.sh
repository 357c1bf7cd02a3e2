#!/bin/sh
# Let the leader of a partition sleep, and wake it: pause-leader.sh TOPIC [PARTITION] [SECONDS]
. "$(dirname "$0")/common.sh"
[ $# -ge 1 ] || { echo "usage: pause-leader.sh TOPIC [PARTITION] [SECONDS]" >&2; exit 2; }
victim=$(leader "$1" "${2:-0}")
[ -n "$victim" ] || { echo "error: nobody leads partition ${2:-0} of $1" >&2; exit 1; }
docker pause "$(container "broker$victim")" >/dev/null
echo "broker$victim, which led partition ${2:-0} of $1, sleeps"
sleep "${3:-20}"
docker unpause "$(container "broker$victim")" >/dev/null
echo "broker$victim is awake"
