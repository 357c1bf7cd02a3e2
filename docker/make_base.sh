#!/bin/bash
# Makes a base image out of Debian's packages, for where no registry is in reach: docker/make_base.sh NAME:TAG
# Needs root, and mmdebstrap, which it installs on a Debian. Documentation and translations are left out, also from what is installed later.
set -euo pipefail
if ! command -v mmdebstrap >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update --quiet --quiet && apt-get install --quiet --quiet --yes --no-install-recommends mmdebstrap >/dev/null
fi
command -v mmdebstrap >/dev/null || {
    echo "mmdebstrap is missing: apt-get install mmdebstrap (or set OTTLA_BASE_IMAGE to an image with Python 3.11)" >&2
    exit 1
}
leave_out=()
for folder in doc man locale info lintian i18n; do
    leave_out+=("--dpkgopt=path-exclude=/usr/share/$folder/*")
done
# bookworm is the Debian whose Python is 3.11. The tar is not kept: the engine reads it as it is made.
mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,python3-venv "${leave_out[@]}" bookworm - |
    docker import --change 'ENV LANG=C.UTF-8' --change 'CMD ["python3"]' - "$1"
