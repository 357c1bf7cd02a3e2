#!/bin/bash
# Spark of the pyspark package: ottla-spark master | worker MASTER_URL | anything else is a command, such as: ottla spark run ...
# SPARK_WORKER_CORES and SPARK_WORKER_MEMORY bound a worker; in a container the names of containers are the addresses.
set -euo pipefail
SPARK_HOME=$(python3 -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
export SPARK_HOME PYSPARK_PYTHON=/opt/ottla/bin/python3
export SPARK_WORKER_DIR=${SPARK_WORKER_DIR:-/tmp/spark-work} SPARK_DAEMON_MEMORY=${SPARK_DAEMON_MEMORY:-256m}
host=$(hostname)
case ${1:-} in
master)
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "${SPARK_HOST:-$host}" --port 7077 --webui-port 8080
    ;;
worker)
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --host "$host" --webui-port 8081 \
        "${2:?the address of the master, as spark://spark-master:7077}"
    ;;
*)
    exec "$@"
    ;;
esac
