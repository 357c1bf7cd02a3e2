#!/bin/sh
# Kill all brokers of a rack with -9, and start them again: kill-rack.sh RACK [SECONDS], as in kill-rack.sh rack1
. "$(dirname "$0")/common.sh"
[ $# -ge 1 ] || { echo "usage: kill-rack.sh RACK [SECONDS]" >&2; exit 2; }
victims=""
for broker in $(services broker); do
    docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$(container "$broker")" |
        grep -qx "OTTLA_BROKER_RACK=$1" && victims="$victims $broker"
done
[ -n "$victims" ] || { echo "error: no broker stands in rack $1" >&2; exit 1; }
for broker in $victims; do docker kill "$(container "$broker")" >/dev/null; done
echo "killed:$victims"
sleep "${2:-10}"
for broker in $victims; do again "$broker" 0; done
