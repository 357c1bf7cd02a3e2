#!/bin/sh
# In the image that builds: ZooKeeper's jars, and no others, out of the pyspark package into /jars.
# /packages/jars is used instead of the package index if it has any. zk/ensemble/java.py knows the same names.
set -eu
mkdir -p /jars
if ls /packages/jars/zookeeper-*.jar >/dev/null 2>&1; then
    cp /packages/jars/*.jar /jars
    exit
fi
mkdir /tmp/pyspark
cd /tmp/pyspark
python3 -m venv /opt/pip
/opt/pip/bin/pip --no-cache-dir download --no-deps --constraint /build/constraints.txt pyspark
case $(echo pyspark*) in
*.whl) python3 -m zipfile -e pyspark*.whl . ;;
*) tar -xf pyspark* ;;
esac
find . -path '*jars/*' \( -name 'zookeeper-[0-9]*.jar' -o -name 'zookeeper-jute-*.jar' -o -name 'netty-*.jar' \
    -o -name 'slf4j-api-*.jar' -o -name 'log4j-*.jar' -o -name 'snappy-java-*.jar' -o -name 'metrics-core-*.jar' \
    -o -name 'commons-*.jar' \) ! -name '*-linux-*' ! -name '*-osx-*' ! -name '*-windows-*' -exec cp {} /jars \;
ls /jars/zookeeper-[0-9]*.jar
rm -r /tmp/pyspark
