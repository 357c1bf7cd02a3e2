#!/bin/bash
# One ZooKeeper server. Alone, or with ZOO_MY_ID=1 and ZOO_SERVERS="server.1=zookeeper0:2888:3888;2181 server.2=..." one of
# an ensemble. ZOO_HEAP bounds the heap.
set -euo pipefail
home=/var/lib/zookeeper
mkdir -p "$home/data"

# Sessions last from 2 ticks on: short ticks notice soon that a broker is gone.
cat >"$home/zoo.cfg" <<END
tickTime=500
initLimit=40
syncLimit=20
maxSessionTimeout=60000
dataDir=$home/data
maxClientCnxns=0
4lw.commands.whitelist=srvr,ruok,mntr
admin.enableServer=false
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
END
if [ -n "${ZOO_SERVERS:-}" ]; then
    tr ' ' '\n' <<<"$ZOO_SERVERS" >>"$home/zoo.cfg"
    echo "${ZOO_MY_ID:?says which of ZOO_SERVERS this one is}" >"$home/data/myid"
else
    echo clientPort=2181 >>"$home/zoo.cfg"
fi
cat >"$home/log4j2.xml" <<END
<Configuration status="error">
  <Appenders><Console name="out"><PatternLayout pattern="%d %-5p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="${ZOO_LOG_LEVEL:-warn}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
END

# Few threads. Names of containers are looked up anew each time: one that comes back may have another address. And nobody
# waits long for one that is gone: its address does not even refuse.
exec java "-Xmx${ZOO_HEAP:-256m}" -Xss512k -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData \
    -Dsun.net.inetaddr.ttl=1 -Dsun.net.inetaddr.negative.ttl=0 -Dzookeeper.cnxTimeout=1000 \
    "-Dlog4j2.configurationFile=$home/log4j2.xml" -Dlog4j2.disableJmx=true -Dzookeeper.jmx.log4j.disable=true \
    -cp '/opt/zookeeper/*' org.apache.zookeeper.server.quorum.QuorumPeerMain "$home/zoo.cfg"
