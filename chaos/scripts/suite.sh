#!/bin/sh
# What `make chaos` runs: suite.sh PYTHON SECONDS. On processes of this machine, each fault that once lost something in turn and
# then random ones; where there is a Docker engine, random ones on containers of a project of its own, too, with images of this
# checkout. All of it takes about SECONDS, and five minutes at least; reports: chaos-results/.
set -eu
cd "$(dirname "$0")/../.."
python=$1
seconds=$2
seed=${SEED:-$(date +%s)}
overhead=60 # to start a cluster, to heal it and to check what happened
in_turn=90  # one round of all, with what it takes to start and to check
single=150  # the scenarios that need a cluster of their own, each for a short time

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

run_local() {
    "$python" -m ottla.cli chaos run --scenario in-turn --seconds 60 --seed "$seed" --report chaos-results/in-turn || failed=1
    for scenario in lost-partition flipped-bit no-descriptors disk-full restarted-unseen; do
        "$python" -m ottla.cli chaos run --scenario "$scenario" --seconds 10 --seed "$seed" \
            --report "chaos-results/$scenario" || [ $? = 2 ] || failed=1 # 2: not offered here
    done
    run local $(($1 - in_turn - single)) || failed=1
}

failed=0
mkdir -p chaos-results
if has_engine; then
    run_local $((seconds / 2))
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
    run_local "$seconds"
fi
exit $failed
