#!/bin/sh
# In the image that builds: writes down what the code depends on, installs that into /opt/ottla, what Spark needs beside it, or
# the code into /code.
# A folder of wheels, /packages/wheels, is used instead of the package index if it has any.
set -eu
if ls /packages/wheels/*.whl >/dev/null 2>&1; then
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=/packages/wheels
fi
pip="/opt/pip/bin/pip --no-cache-dir --disable-pip-version-check --python /opt/ottla/bin/python3 install"
case $1 in
requirements)
    python3 -c "
import tomllib
with open('/build/pyproject.toml', 'rb') as file:
    project = tomllib.load(file)['project']
extras = project['optional-dependencies']
for name, lines in ('requirements', project['dependencies'] + extras['broker']), ('spark', extras['spark']):
    with open(f'/build/{name}.txt', 'w') as file:
        print(*lines, sep='\n', file=file)
"
    ;;
dependencies)
    python3 -m venv /opt/pip
    python3 -m venv --without-pip /opt/ottla
    $pip --constraint /build/constraints.txt --requirement /build/requirements.txt
    ;;
spark)
    $pip --constraint /build/constraints.txt --requirement /build/spark.txt
    ;;
code)
    $pip --no-deps --prefix /code /source
    ;;
esac
