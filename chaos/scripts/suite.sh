#!/bin/sh
# What `make chaos` runs: suite.sh PYTHON SECONDS. Random faults on processes of this machine and, where there is a Docker
# engine, on containers of a project of its own, with images of this checkout. All of it takes about SECONDS; reports: chaos-results/.
set -eu
cd "$(dirname "$0")/../.."
python=$1
seconds=$2
seed=${SEED:-$(date +%s)}
overhead=60 # to start a cluster, to heal it and to check what happened

has_engine() {
    docker info >/dev/null 2>&1
}

run() {
    target=$1
    faults=$(($2 > overhead + 20 ? $2 - overhead : 20))
    shift 2
    "$python" -m ottla.cli chaos run --scenario random --seconds "$faults" --seed "$seed" --target "$target" \
        --report "chaos-results/$target" "$@"
}

failed=0
mkdir -p chaos-results
if has_engine; then
    run local $((seconds / 2)) || failed=1
    COMPOSE_PROJECT_NAME=ottla-chaos-$$
    # shellcheck disable=SC2046
    set -- $("$python" -c 'from ottla.zk.ensemble import free_ports; print(*free_ports(6))')
    export COMPOSE_PROJECT_NAME OTTLA_PORT0="$1" OTTLA_PORT1="$2" OTTLA_PORT2="$3"
    export OTTLA_ADMIN_PORT0="$4" OTTLA_ADMIN_PORT1="$5" OTTLA_ADMIN_PORT2="$6"
    trap 'docker/compose.sh down --volumes >/dev/null 2>&1' EXIT
    docker/images.sh "$python"
    docker/compose.sh up >chaos-results/compose-up.log 2>&1 || { cat chaos-results/compose-up.log >&2; exit 1; }
    run compose $((seconds / 2)) --project "$COMPOSE_PROJECT_NAME" || failed=1
else
    echo "no Docker engine in reach: containers are left out" >&2
    run local "$seconds" || failed=1
fi
exit $failed
