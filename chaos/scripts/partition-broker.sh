#!/bin/sh
# Take a broker out of the network, and put it back: partition-broker.sh BROKER [SECONDS], as in partition-broker.sh broker1
. "$(dirname "$0")/common.sh"
[ $# -ge 1 ] || { echo "usage: partition-broker.sh BROKER [SECONDS]" >&2; exit 2; }
id=$(container "$1")
network=$(docker inspect --format '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}' "$id")
docker network disconnect "$network" "$id"
echo "$1 is cut off"
trap 'docker network connect --alias "$1" "$network" "$id"; echo "$1 is connected again"' EXIT
sleep "${2:-20}"
