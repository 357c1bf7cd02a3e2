#!/bin/bash
# Fills docker/packages with what the images need of Python and Java, and docker/spark_packages with what only Spark's needs,
# from this machine's package index, for where no container reaches one: docker/make_packages.sh PYTHON. Does nothing if it was
# done for the same versions before.
set -euo pipefail
python=$1
root=$(cd "$(dirname "$0")/.." && pwd)
packages=$root/docker/packages
spark_packages=$root/docker/spark_packages
requirements() {
    "$python" -c '
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)
extras = project["project"]["optional-dependencies"]
light = [*project["project"]["dependencies"], *extras["broker"], *project["build-system"]["requires"]]
print(*(extras["spark"] if sys.argv[2] == "spark" else light), sep="\n")' "$root/pyproject.toml" "$1"
}
mapfile -t needed < <(requirements light)
mapfile -t spark_needed < <(requirements spark)
stamp=$({ printf '%s\n' "${needed[@]}" "${spark_needed[@]}"; cat "$root/constraints.txt" "$0"; } | sha256sum | cut -d' ' -f1)
[ "$(cat "$packages/.made" 2>/dev/null)" = "$stamp" ] && exit

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ "$version" = 3.11 ] || {
    echo "$python is Python $version, but the images have 3.11: wheels made here would not fit" >&2
    exit 1
}
rm -rf "$packages/wheels" "$packages/jars" "$spark_packages/wheels"
mkdir -p "$packages/wheels" "$packages/jars" "$spark_packages/wheels"
"$python" -m pip wheel --quiet --constraint "$root/constraints.txt" --wheel-dir "$packages/wheels" "${needed[@]}"
"$python" -m pip wheel --quiet --constraint "$root/constraints.txt" --wheel-dir "$spark_packages/wheels" "${spark_needed[@]}"
"$python" -c '
import shutil, sys
from ottla.zk.ensemble.java import find_jars
for jar in find_jars():
    shutil.copy(jar, sys.argv[1])' "$packages/jars"
echo "$stamp" >"$packages/.made"
