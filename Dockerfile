# All images, from one base: any Debian with Python 3.11 and venv. Where a registry is in reach, `docker compose up --build`
# is all it takes; `make images` does it also where none is (docs/docker.md).
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS jars
COPY docker/packages /packages
COPY constraints.txt docker/zookeeper_jars.sh /build/
RUN /build/zookeeper_jars.sh

FROM ${BASE_IMAGE} AS java
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# A real ZooKeeper server: one of an ensemble if ZOO_MY_ID and ZOO_SERVERS say so, as with Docker's official image.
FROM java AS zookeeper
RUN useradd --uid 10001 --home-dir /var/lib/zookeeper --create-home --shell /usr/sbin/nologin zookeeper
COPY --from=jars /jars /opt/zookeeper
ENV LANG=C.UTF-8 ZOO_HEAP=256m
USER zookeeper
VOLUME /var/lib/zookeeper
EXPOSE 2181 2888 3888
HEALTHCHECK --interval=3s --timeout=3s --start-period=60s --retries=5 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2181 && printf srvr >&3 && grep -q ^Mode: <&3"]
ENTRYPOINT ["/usr/local/bin/zookeeper"]
COPY docker/zookeeper.sh /usr/local/bin/zookeeper

FROM ${BASE_IMAGE} AS requirements
COPY pyproject.toml docker/pip.sh /build/
RUN /build/pip.sh requirements

# What the code depends on: from docker/packages where that was filled, else from the package index.
FROM ${BASE_IMAGE} AS dependencies
COPY docker/packages /packages
COPY --from=requirements /build/requirements.txt /build/
COPY constraints.txt docker/pip.sh /build/
RUN /build/pip.sh dependencies

# A compiler, and the headers of the base's own Python where they do not come with it.
FROM dependencies AS code
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && if [ ! -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then \
      apt-get install --yes --no-install-recommends libpython3-dev; fi
COPY pyproject.toml setup.py README.md LICENSE /source/
COPY src /source/src
COPY bench /source/bench
COPY broker /source/broker
COPY chaos /source/chaos
COPY cli /source/cli
COPY client /source/client
COPY local /source/local
COPY net /source/net
COPY spark_jobs /source/spark_jobs
COPY wire /source/wire
COPY zk /source/zk
RUN /build/pip.sh code

FROM ${BASE_IMAGE} AS runtime
ENV PATH=/opt/ottla/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --home-dir /var/lib/ottla --create-home --shell /usr/sbin/nologin ottla
COPY --from=dependencies /opt/ottla /opt/ottla
USER ottla
WORKDIR /var/lib/ottla

# The code comes last: all above it stays as it is when only the code has changed.
FROM runtime AS client
HEALTHCHECK NONE
ENTRYPOINT ["ottla"]
COPY --from=code /code /opt/ottla

# Settings come from the environment (OTTLA_BROKER_ID is broker.id); data belongs on a volume.
FROM runtime AS broker
ENV OTTLA_LOG_DIRS=/var/lib/ottla OTTLA_ADMIN_LISTENER=http://0.0.0.0:8092
VOLUME /var/lib/ottla
EXPOSE 9092 9192 8092
HEALTHCHECK --interval=3s --timeout=3s --start-period=60s --retries=5 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8092 && printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^HTTP/1.. 200' <&3"]
ENTRYPOINT ["python3", "-m", "ottla.broker"]
COPY --from=code /code /opt/ottla

# All of Spark stands last: the classic builder makes every stage in front of the one that is asked for.
FROM dependencies AS spark-dependencies
COPY docker/spark_packages /packages
COPY --from=requirements /build/spark.txt /build/
RUN /build/pip.sh spark

# Spark with ottla in it: a master, a worker, or a job (docker/spark.sh).
FROM java AS spark
ENV PATH=/opt/ottla/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --home-dir /var/lib/ottla --create-home --shell /usr/sbin/nologin ottla \
 && install -d -o ottla /checkpoints
COPY --from=spark-dependencies /opt/ottla /opt/ottla
USER ottla
WORKDIR /var/lib/ottla
EXPOSE 7077
HEALTHCHECK NONE
ENTRYPOINT ["/usr/local/bin/ottla-spark"]
COPY docker/spark.sh /usr/local/bin/ottla-spark
COPY --from=code /code /opt/ottla
