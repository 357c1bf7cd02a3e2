#!/bin/sh
# Kill the controller with -9, and start it again: kill-controller.sh [SECONDS]
. "$(dirname "$0")/common.sh"
victim=$(ottla cluster info --format json | field controller)
[ -n "$victim" ] || { echo "error: there is no controller" >&2; exit 1; }
docker kill "$(container "broker$victim")" >/dev/null
echo "broker$victim, the controller, is killed"
again "broker$victim" "${1:-10}"
