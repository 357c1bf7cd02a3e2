# What the scripts beside this file share. They work on the compose cluster of this machine:
# COMPOSE_PROJECT_NAME (ottla) names it, OTTLA_BOOTSTRAP (127.0.0.1:9092,...) is where its brokers are asked.
set -eu
PROJECT=${COMPOSE_PROJECT_NAME:-ottla}
export OTTLA_BOOTSTRAP="${OTTLA_BOOTSTRAP:-127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094}"
ROOT=$(cd "$(dirname "$0")/../.." && pwd)

# The command of the checkout if there is one, else the installed one.
ottla() {
    if [ -x "$ROOT/.venv/bin/ottla" ]; then "$ROOT/.venv/bin/ottla" "$@"; else command ottla "$@"; fi
}

# container broker0: its id, running or not.
container() {
    found=$(docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT" \
        --filter "label=com.docker.compose.service=$1")
    [ -n "$found" ] || { echo "error: project $PROJECT has no $1; make compose-up starts it" >&2; exit 1; }
    echo "$found"
}

# services broker: the names of all services that begin so.
services() {
    docker ps --all --filter "label=com.docker.compose.project=$PROJECT" \
        --format '{{.Label "com.docker.compose.service"}}' | grep "^$1" | sort
}

# field KEY: the first number behind "KEY": in the json on standard input.
field() {
    sed -n "s/.*\"$1\": *\\([0-9][0-9]*\\).*/\\1/p" | head -n 1
}

# leader TOPIC [PARTITION]: the broker that leads it now.
leader() {
    ottla topic describe "$1" --format json | sed -n "/\"partition\": ${2:-0},/,/}/p" | field leader
}

# again SERVICE SECONDS: start it after a while.
again() {
    sleep "$2"
    docker start "$(container "$1")" >/dev/null
    echo "$1 is started again"
}
