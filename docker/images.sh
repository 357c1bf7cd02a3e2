#!/bin/bash
# Builds all images: docker/images.sh PYTHON. On an image of Docker's registry if that is in reach, else on a base made here.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
registry_base=python:3.11-slim
own_base=ottla-base:bookworm

present() { docker image inspect "$1" >/dev/null 2>&1; }

base=${OTTLA_BASE_IMAGE:-}
if [ -z "$base" ]; then
    if present "$registry_base" || { ! present "$own_base" && docker pull --quiet "$registry_base" 2>/dev/null; }; then
        base=$registry_base
    else
        base=$own_base
        present "$base" || { echo "no registry in reach: making $base"; docker/make_base.sh "$base"; }
    fi
fi
if [ "$base" = "$own_base" ]; then
    docker/make_packages.sh "$python"
else
    rm -rf docker/packages/{wheels,jars,.made} docker/spark_packages/wheels
fi
for target in zookeeper client broker spark; do
    docker build --quiet --target "$target" --build-arg "BASE_IMAGE=$base" \
        --tag "ottla-$target:${OTTLA_TAG:-latest}" . >/dev/null
done
docker image ls --format '{{.Repository}}:{{.Tag}}\t{{.Size}}' | grep -E "^ottla-(zookeeper|broker|client|spark):${OTTLA_TAG:-latest}\b"
