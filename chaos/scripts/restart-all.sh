#!/bin/sh
# Restart every broker in good order, one after the other, each when the one before serves again: restart-all.sh
. "$(dirname "$0")/common.sh"
for broker in $(services broker); do
    docker restart "$(container "$broker")" >/dev/null
    tries=0
    until [ "$(docker inspect --format '{{.State.Health.Status}}' "$(container "$broker")")" = healthy ]; do
        tries=$((tries + 1))
        [ $tries -lt 120 ] || { echo "error: $broker is not healthy after a minute" >&2; exit 1; }
        sleep 0.5
    done
    echo "$broker is restarted"
done
