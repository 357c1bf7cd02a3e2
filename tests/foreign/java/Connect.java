// Kafka Connect's own worker, without its REST server: a file's lines go to a topic and from there to another file.
// java -cp 'lib/*' Connect.java BOOTSTRAP all

import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.runtime.*;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorInfo;
import org.apache.kafka.connect.runtime.standalone.*;
import org.apache.kafka.connect.storage.FileOffsetBackingStore;
import org.apache.kafka.connect.util.FutureCallback;

public class Connect {
    static final int LINES = 5000;

    public static void main(String[] given) throws Exception {
        Path folder = Files.createTempDirectory("connect");
        Path in = folder.resolve("in.txt"), out = folder.resolve("out.txt");
        List<String> lines = IntStream.range(0, LINES).mapToObj(number -> "line " + number).collect(Collectors.toList());
        Files.write(in, lines);
        String text = "org.apache.kafka.connect.storage.StringConverter";
        StandaloneHerder herder = start(Map.of(
            "bootstrap.servers", given[0], "key.converter", text, "value.converter", text, "offset.flush.interval.ms", "1000",
            "offset.storage.file.filename", folder.resolve("offsets").toString(),
            "plugin.discovery", "service_load", "plugin.path", Files.createDirectory(folder.resolve("plugins")).toString()));
        String topic = "connect-" + UUID.randomUUID().toString().substring(0, 8), kind = "org.apache.kafka.connect.file.FileStream";
        add(herder, Map.of("name", "source-" + topic, "connector.class", kind + "SourceConnector", "file", in.toString(), "topic", topic));
        add(herder, Map.of("name", "sink-" + topic, "connector.class", kind + "SinkConnector", "file", out.toString(), "topics", topic));
        long began = System.currentTimeMillis();
        while (!Files.exists(out) || Files.readAllLines(out).size() < LINES) {
            if (System.currentTimeMillis() - began > 60_000) break;
            Thread.sleep(100);
        }
        boolean same = Files.exists(out) && Files.readAllLines(out).equals(lines);
        System.out.printf("%s  connect                  %5d ms  %d lines from a file by a topic to a file%n",
            same ? "ok    " : "FAILED", System.currentTimeMillis() - began, LINES);
        System.exit(same ? 0 : 1);
    }

    static StandaloneHerder start(Map<String, String> properties) {
        Plugins plugins = new Plugins(properties);
        StandaloneConfig config = new StandaloneConfig(properties);
        var policy = new AllConnectorClientConfigOverridePolicy();
        policy.configure(Map.of());
        var offsets = new FileOffsetBackingStore(
            plugins.newInternalConverter(true, "org.apache.kafka.connect.json.JsonConverter", Map.of("schemas.enable", "false")));
        offsets.configure(config);
        Worker worker = new Worker("worker", Time.SYSTEM, plugins, config, offsets, policy);
        StandaloneHerder herder = new StandaloneHerder(worker, config.kafkaClusterId(), policy);
        herder.start();
        return herder;
    }

    static void add(StandaloneHerder herder, Map<String, String> connector) throws Exception {
        var done = new FutureCallback<Herder.Created<ConnectorInfo>>();
        herder.putConnectorConfig(connector.get("name"), connector, false, done);
        done.get();
    }
}
