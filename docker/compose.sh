#!/bin/bash
# The cluster of docker-compose.yml with whichever Compose is there: docker/compose.sh up|down [more arguments].
# `up` uses the images that are there (make images) and returns when every service is healthy; `down` keeps the data unless
# it is told --volumes. COMPOSE_PROJECT_NAME and COMPOSE_PROFILES are Compose's own.
set -euo pipefail
cd "$(dirname "$0")/.."
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-ottla}
if docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
elif command -v docker-compose >/dev/null; then
    compose=(docker-compose)
else
    echo "neither 'docker compose' nor docker-compose is there" >&2
    exit 1
fi

containers() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
        --filter label=com.docker.compose.oneoff=False
}

# Containers that are not healthy yet: service, state, health, exit code. What has no health has ended well with 0.
unhealthy() {
    docker inspect --format \
        '{{index .Config.Labels "com.docker.compose.service"}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{else}}none{{end}} {{.State.ExitCode}}' \
        $(containers) | grep -vE ' running (healthy|none) | exited none 0$' || true
}

wait_healthy() {
    local deadline=$((SECONDS + 180)) left
    while left=$(unhealthy) && [ -n "$left" ]; do
        if [ $SECONDS -gt $deadline ] || grep -q ' exited ' <<<"$left"; then
            echo "not healthy: $left" >&2
            "${compose[@]}" logs --tail 20 >&2
            exit 1
        fi
        sleep 0.5
    done
}

case ${1:-} in
up)
    "${compose[@]}" up --detach --no-build "${@:2}"
    wait_healthy
    port=${OTTLA_PORT0:-9092} admin=${OTTLA_ADMIN_PORT0:-8092}
    cat <<END
The cluster $COMPOSE_PROJECT_NAME serves.
  from this machine    ottla --help; export OTTLA_BOOTSTRAP=127.0.0.1:$port
  in its network       docker run --rm --network ${COMPOSE_PROJECT_NAME}_default -e OTTLA_BOOTSTRAP=broker0:9192 ottla-client cluster info
  health and metrics   http://127.0.0.1:$admin/readyz and /metrics
  stop it              make compose-down (the data stays in volumes; VOLUMES=1 deletes them)
END
    ;;
down)
    # All profiles: what was started with one must not stay behind.
    COMPOSE_PROFILES=racks,chaos,spark "${compose[@]}" down --remove-orphans "${@:2}"
    ;;
*)
    echo "usage: docker/compose.sh up|down" >&2
    exit 2
    ;;
esac
