// Kafka's own Java clients against a live cluster: AdminClient, an idempotent producer in every codec, groups, times, kills.
// java -cp 'lib/*' Foreign.java BOOTSTRAP COMMAND, where a COMMAND is a name of `main`; each prints what it has seen, or fails.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

public class Foreign {
    static String bootstrap;
    static final String run = UUID.randomUUID().toString().substring(0, 8);

    public static void main(String[] given) throws Exception {
        bootstrap = given[0];
        String command = given.length > 1 ? given[1] : "all";
        if (command.equals("kill")) {
            produceWhileSomebodyKills(given[2], Integer.parseInt(given[3]));
            return;
        }
        Map<String, Callable<String>> steps = new LinkedHashMap<>();
        steps.put("admin", Foreign::admin);
        steps.put("codecs", Foreign::codecs);
        steps.put("headers-and-tombstones", Foreign::headersAndTombstones);
        steps.put("large", Foreign::large);
        steps.put("auto-creation", Foreign::autoCreation);
        steps.put("group", () -> group("classic"));
        steps.put("group-848", () -> group("consumer"));
        steps.put("static-member", () -> staticMember("classic"));
        steps.put("static-member-848", () -> staticMember("consumer"));
        steps.put("pattern-848", Foreign::pattern);
        steps.put("times", Foreign::times);
        steps.put("admin-groups", () -> adminGroups("classic"));
        steps.put("admin-groups-848", () -> adminGroups("consumer"));
        steps.put("admin-configs", Foreign::adminConfigs);
        steps.put("variants", Foreign::variants);
        steps.put("refused", Foreign::refused);
        int failed = 0;
        for (var step : steps.entrySet()) {
            if (!command.equals("all") && !command.equals(step.getKey())) continue;
            long began = System.nanoTime();
            try {
                String seen = step.getValue().call();
                System.out.printf("ok      %-24s %5d ms  %s%n", step.getKey(), (System.nanoTime() - began) / 1_000_000, seen);
            } catch (Throwable error) {
                failed++;
                System.out.printf("FAILED  %-24s %s%n", step.getKey(), error);
                for (Throwable one = error; one != null; one = one.getCause())
                    for (var frame : one.getStackTrace()) if (frame.getClassName().startsWith("Foreign")) System.out.println("          " + frame);
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    // --- what is done -----------------------------------------------------------------------------------------------------

    static String admin() throws Exception {
        try (Admin admin = openAdmin()) {
            var cluster = admin.describeCluster();
            check(cluster.nodes().get().size() == 3, "three brokers");
            check(cluster.controller().get() != null, "a controller");
            String topic = create(admin, "admin", 3, 3, Map.of("retention.ms", "3600000"));
            var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            check(described.partitions().size() == 3 && described.partitions().get(0).isr().size() == 3, "partitions and isr");
            check(!described.topicId().equals(Uuid.ZERO_UUID), "a topic id");
            check(admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds().get().size() == 1, "by id");
            check(admin.listTopics().names().get().contains(topic), "listed");
            fails(TopicExistsException.class, () -> create(admin, "admin", 1, 1, Map.of()));
            fails(UnknownTopicOrPartitionException.class, () -> admin.describeTopics(List.of("no-such-" + run)).allTopicNames().get());
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            until("five partitions", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 5);
            admin.deleteTopics(List.of(topic)).all().get();
            until("deleted", () -> !admin.listTopics().names().get().contains(topic));
            String other = create(admin, "by-id", 1, 3, Map.of());
            Uuid id = admin.describeTopics(List.of(other)).allTopicNames().get().get(other).topicId();
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            until("deleted by id", () -> !admin.listTopics().names().get().contains(other));
            return "describe, list, create, enlarge, delete by name and id";
        }
    }

    static String codecs() throws Exception {
        StringBuilder seen = new StringBuilder();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic;
            try (Admin admin = openAdmin()) {
                topic = create(admin, "codec-" + codec, 2, 3, Map.of("min.insync.replicas", "2"));
            }
            int count = 2000;
            long produced = produce(topic, count, Map.of("compression.type", codec));
            List<ConsumerRecord<String, String>> read = readAlone(topic, count);
            Set<String> values = new HashSet<>();
            for (var record : read) values.add(record.value());
            check(values.size() == count, codec + ": " + values.size() + " of " + count);
            seen.append(codec).append(' ');
        }
        return seen + "2000 records each, idempotent, acks=all";
    }

    static String headersAndTombstones() throws Exception {
        String topic;
        try (Admin admin = openAdmin()) { topic = create(admin, "headers", 1, 3, Map.of()); }
        try (Producer<String, String> producer = openProducer(Map.of())) {
            var record = new ProducerRecord<String, String>(topic, 0, 1_700_000_000_123L, "key", "value");
            record.headers().add("a", "1".getBytes()).add("a", "2".getBytes()).add("null", null).add("empty", new byte[0]);
            RecordMetadata where = producer.send(record).get();
            check(where.offset() == 0 && where.timestamp() == 1_700_000_000_123L, "metadata " + where);
            producer.send(new ProducerRecord<>(topic, "key", null)).get();
            producer.send(new ProducerRecord<>(topic, null, "")).get();
        }
        var read = readAlone(topic, 3);
        List<String> headers = new ArrayList<>();
        for (Header header : read.get(0).headers())
            headers.add(header.key() + "=" + (header.value() == null ? "null" : new String(header.value())));
        check(headers.equals(List.of("a=1", "a=2", "null=null", "empty=")), headers.toString());
        check(read.get(0).timestamp() == 1_700_000_000_123L, "timestamp");
        check(read.get(1).value() == null && "key".equals(read.get(1).key()), "tombstone");
        check(read.get(2).key() == null && "".equals(read.get(2).value()), "null key, empty value");
        check(read.get(0).leaderEpoch().isPresent(), "a leader epoch");
        return headers.toString();
    }

    static String large() throws Exception {
        String topic;
        try (Admin admin = openAdmin()) { topic = create(admin, "large", 1, 3, Map.of()); }
        char[] much = new char[1_000_000];
        Arrays.fill(much, 'x');
        try (Producer<String, String> producer = openProducer(Map.of("max.request.size", "2000000"))) {
            for (int i = 0; i < 5; i++) producer.send(new ProducerRecord<>(topic, new String(much))).get();
            fails(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic, "y".repeat(1_500_000))).get());
        }
        check(readAlone(topic, 5).stream().allMatch(record -> record.value().length() == 1_000_000), "whole");
        return "five of 1 MB; 1.5 MB is RecordTooLarge";
    }

    static String autoCreation() throws Exception {
        String topic = "auto-" + run;
        produce(topic, 10, Map.of());
        check(readAlone(topic, 10).size() == 10, "ten");
        return "a topic that nobody made";
    }

    static String group(String protocol) throws Exception {
        String topic, group = protocol + "-group-" + run;
        try (Admin admin = openAdmin()) { topic = create(admin, protocol + "-group", 6, 3, Map.of()); }
        produce(topic, 600, Map.of());
        Map<String, Object> cooperative = new HashMap<>(Map.of("group.protocol", protocol));
        if (protocol.equals("classic"))
            cooperative.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Consumer<String, String> first = openConsumer(group, cooperative);
        first.subscribe(List.of(topic));
        pollUntil(seen, () -> seen.size() == 600, first);
        check(first.assignment().size() == 6, "all six");
        first.commitSync();
        check(first.groupMetadata().generationId() > 0, "a generation");
        Consumer<String, String> second = openConsumer(group, cooperative);
        second.subscribe(List.of(topic));
        pollUntil(seen, () -> first.assignment().size() == 3 && second.assignment().size() == 3, first, second);
        produce(topic, 600, Map.of("from", "600"));
        pollUntil(seen, () -> seen.size() == 1200, first, second);
        first.commitSync();
        second.commitSync();
        second.close();
        pollUntil(seen, () -> first.assignment().size() == 6, first);
        first.close();
        produce(topic, 100, Map.of("from", "1200"));
        Set<String> after = ConcurrentHashMap.newKeySet();
        Consumer<String, String> third = openConsumer(group, Map.of("group.protocol", protocol));  // eager by default
        third.subscribe(List.of(topic));
        pollUntil(after, () -> after.size() == 100, third);
        long committed = third.committed(third.assignment()).values().stream().filter(Objects::nonNull).mapToLong(OffsetAndMetadata::offset).sum();
        check(committed == 1200, "committed " + committed);
        check(third.currentLag(new TopicPartition(topic, 0)).orElse(-1) == 0, "lag");
        third.close();
        return "two members, 6 = 3 + 3 = 6, resumed at 1200";
    }

    static String staticMember(String protocol) throws Exception {
        String topic, group = protocol + "-static-" + run;
        try (Admin admin = openAdmin()) { topic = create(admin, protocol + "-static", 4, 3, Map.of()); }
        produce(topic, 100, Map.of());
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Consumer<String, String> one = openConsumer(group, Map.of("group.protocol", protocol, "group.instance.id", "one"));
        one.subscribe(List.of(topic));
        pollUntil(seen, () -> seen.size() == 100, one);
        int generation = one.groupMetadata().generationId();
        one.commitSync();
        one.close();
        Consumer<String, String> again = openConsumer(group, Map.of("group.protocol", protocol, "group.instance.id", "one"));
        again.subscribe(List.of(topic));
        produce(topic, 10, Map.of("from", "100"));
        pollUntil(seen, () -> seen.size() == 110, again);
        check(again.groupMetadata().generationId() == generation, "the same generation " + generation);
        again.close();
        try (Admin admin = openAdmin()) {
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
        }
        return "came back without a rebalance, and was removed by an admin";
    }

    static String pattern() throws Exception {
        String group = "pattern-" + run, first, second;
        try (Admin admin = openAdmin()) { first = create(admin, "pattern-a", 2, 3, Map.of()); }
        produce(first, 20, Map.of());
        Set<String> seen = ConcurrentHashMap.newKeySet();
        try (Consumer<String, String> member = openConsumer(group, Map.of("group.protocol", "consumer"))) {
            member.subscribe(new SubscriptionPattern("java-pattern-[a-z]-.*"));
            pollUntil(seen, () -> seen.size() == 20, member);
            try (Admin admin = openAdmin()) { second = create(admin, "pattern-b", 2, 3, Map.of()); }
            produce(second, 20, Map.of("from", "20"));
            pollUntil(seen, () -> seen.size() == 40, member);
            fails(InvalidRegularExpression.class, () -> { member.subscribe(new SubscriptionPattern("(")); pollUntil(seen, () -> false, member); });
        }
        return "a topic that came later was found by the broker";
    }

    static String times() throws Exception {
        String topic;
        try (Admin admin = openAdmin()) { topic = create(admin, "times", 1, 3, Map.of()); }
        long base = System.currentTimeMillis() - 100_000;
        try (Producer<String, String> producer = openProducer(Map.of("batch.size", "0"))) {
            for (int i = 0; i < 50; i++) producer.send(new ProducerRecord<>(topic, 0, base + i * 1000L, null, "" + i));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = openConsumer(null, Map.of())) {
            var found = consumer.offsetsForTimes(Map.of(partition, base + 20_500)).get(partition);
            check(found.offset() == 21 && found.timestamp() == base + 21_000, "by time " + found);
            check(consumer.offsetsForTimes(Map.of(partition, base + 10_000_000)).get(partition) == null, "after the last");
            check(consumer.beginningOffsets(List.of(partition)).get(partition) == 0, "beginning");
            check(consumer.endOffsets(List.of(partition)).get(partition) == 50, "end");
            consumer.assign(List.of(partition));
            consumer.seek(partition, 48);
            var read = consumer.poll(Duration.ofSeconds(10));
            check(read.iterator().next().offset() == 48, "seek");
        }
        try (Admin admin = openAdmin()) {
            var max = admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get();
            check(max.offset() == 49 && max.timestamp() == base + 49_000, "max timestamp " + max);
            check(admin.listOffsets(Map.of(partition, OffsetSpec.earliestLocal())).partitionResult(partition).get().offset() == 0, "earliest local");
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(10))).all().get();
            check(admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get().offset() == 10, "deleted");
        }
        try (Consumer<String, String> consumer = openConsumer(null, Map.of("auto.offset.reset", "earliest"))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 3);
            var read = consumer.poll(Duration.ofSeconds(10));
            check(read.iterator().next().offset() == 10, "out of range goes to the earliest");
        }
        return "offsetsForTimes, endOffsets, seek, max timestamp, deleteRecords";
    }

    static String adminGroups(String protocol) throws Exception {
        String topic, group = protocol + "-described-" + run;
        try (Admin admin = openAdmin()) { topic = create(admin, protocol + "-described", 2, 3, Map.of()); }
        produce(topic, 20, Map.of());
        Set<String> seen = ConcurrentHashMap.newKeySet();
        try (Admin admin = openAdmin(); Consumer<String, String> member = openConsumer(group, Map.of("group.protocol", protocol))) {
            member.subscribe(List.of(topic));
            pollUntil(seen, () -> seen.size() == 20, member);
            member.commitSync();
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            check(described.members().size() == 1 && described.groupState() == GroupState.STABLE, described.toString());
            check(described.members().iterator().next().assignment().topicPartitions().size() == 2, "its assignment");
            check(described.type().toString().equalsIgnoreCase(protocol), "its type " + described.type());
            check(admin.listGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group)), "listed");
            check(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size() == 2, "its offsets");
            fails(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        }
        try (Admin admin = openAdmin()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(1, "by hand"))).all().get();
            var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            check(offsets.get(partition).offset() == 1 && offsets.get(partition).metadata().equals("by hand"), "altered");
            admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            check(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size() == 1, "one deleted");
            admin.deleteConsumerGroups(List.of(group)).all().get();
            until("no such group", () -> admin.listGroups().all().get().stream().noneMatch(one -> one.groupId().equals(group)));
        }
        return "describe, list, alter, delete";
    }

    static String adminConfigs() throws Exception {
        try (Admin admin = openAdmin()) {
            String topic = create(admin, "configs", 1, 3, Map.of());
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            var set = new AlterConfigOp(new ConfigEntry("retention.ms", "123456"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
            until("altered", () -> {
                var entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms");
                return entry.value().equals("123456") && entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG;
            });
            var bad = new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET);
            fails(InvalidConfigurationException.class, () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(bad))).all().get());
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "0");
            int settings = admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().size();
            check(settings > 10, "settings of a broker");
            var logDirs = admin.describeLogDirs(List.of(0, 1, 2)).allDescriptions().get();
            check(logDirs.size() == 3, "log dirs");
            var partition = new TopicPartition(topic, 0);
            var before = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0);
            List<Integer> turned = new ArrayList<>();
            before.replicas().forEach(node -> turned.add(0, node.id()));
            admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(turned)))).all().get();
            until("moved", () -> admin.listPartitionReassignments().reassignments().get().isEmpty());
            admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get();
            until("the preferred leads", () ->
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).leader().id() == turned.get(0));
            return settings + " settings of a broker, reassignment, election";
        }
    }

    static String variants() throws Exception {
        String topic;
        try (Admin admin = openAdmin()) { topic = create(admin, "variants", 2, 3, Map.of()); }
        produce(topic, 100, Map.of("acks", "1", "enable.idempotence", "false"));
        produce(topic, 100, Map.of("acks", "0", "enable.idempotence", "false", "from", "100"));
        produce(topic, 100, Map.of("acks", "all", "max.in.flight.requests.per.connection", "1", "linger.ms", "50", "from", "200"));
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Map<String, Object> options = Map.of(
            "isolation.level", "read_committed", "client.rack", "rack1", "fetch.min.bytes", "100000", "fetch.max.wait.ms", "200",
            "max.partition.fetch.bytes", "1000", "enable.auto.commit", "true", "auto.commit.interval.ms", "100",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor,org.apache.kafka.clients.consumer.StickyAssignor");
        try (Consumer<String, String> consumer = openConsumer("variants-" + run, options)) {
            consumer.subscribe(java.util.regex.Pattern.compile("java-variants-.*" + run));
            pollUntil(seen, () -> seen.size() == 300, consumer);
            consumer.pause(consumer.assignment());
            produce(topic, 10, Map.of("from", "300"));
            check(consumer.poll(Duration.ofMillis(500)).isEmpty(), "paused");
            consumer.resume(consumer.assignment());
            pollUntil(seen, () -> seen.size() == 310, consumer);
            check(consumer.listTopics().containsKey(topic), "listed");
            consumer.enforceRebalance();
            produce(topic, 10, Map.of("from", "310"));
            pollUntil(seen, () -> seen.size() == 320, consumer);
        }
        return "acks 0, 1 and all; read_committed, a pattern, small fetches, pause, auto commit, an enforced rebalance";
    }

    static String refused() throws Exception {
        try (Producer<String, String> producer = openProducer(Map.of("transactional.id", "t-" + run))) {
            fails(KafkaException.class, producer::initTransactions);
        }
        try (Admin admin = openAdmin()) {
            fails(KafkaException.class, () -> admin.describeAcls(org.apache.kafka.common.acl.AclBindingFilter.ANY).values().get());
            fails(KafkaException.class, () -> admin.describeMetadataQuorum().quorumInfo().get());
            fails(KafkaException.class, () -> admin.listTransactions().all().get());
            fails(KafkaException.class, () -> admin.describeUserScramCredentials().all().get());
            admin.listTopics().names().get();
        }
        return "transactions, acls, quorum, scram: typed errors, and the client goes on";
    }

    /** Numbers, one after the other in one partition, until so many are acknowledged; whoever started this kills leaders meanwhile. */
    static void produceWhileSomebodyKills(String topic, int count) throws Exception {
        AtomicInteger acked = new AtomicInteger(), failed = new AtomicInteger();
        try (Producer<String, String> producer = openProducer(Map.of("delivery.timeout.ms", "60000", "linger.ms", "1"))) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, "k" + i % 7, "" + i), (where, error) -> {
                    if (error == null) { if (acked.incrementAndGet() == count / 4) System.out.println("a quarter"); }
                    else { failed.incrementAndGet(); System.out.println("failed: " + error); }
                });
                if (i % 20 == 0) Thread.sleep(10);
            }
            producer.flush();
        }
        System.out.println("acked " + acked + " failed " + failed);
    }

    // --- with what ----------------------------------------------------------------------------------------------------------

    static Admin openAdmin() { return Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "10000", "default.api.timeout.ms", "20000")); }

    static String create(Admin admin, String name, int partitions, int replicas, Map<String, String> config) throws Exception {
        String topic = "java-" + name + "-" + run;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) replicas).configs(config))).all().get();
        return topic;
    }

    static Producer<String, String> openProducer(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));  // its defaults: idempotent, acks=all
        config.putAll(more);
        config.remove("from");
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    static long produce(String topic, int count, Map<String, Object> more) throws Exception {
        int from = Integer.parseInt((String) more.getOrDefault("from", "0"));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (Producer<String, String> producer = openProducer(more)) {
            for (int i = from; i < from + count; i++) sent.add(producer.send(new ProducerRecord<>(topic, "key " + i, "value " + i)));
            producer.flush();
        }
        for (var one : sent) one.get();
        return sent.size();
    }

    static Consumer<String, String> openConsumer(String group, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        if (group != null) config.put("group.id", group);
        config.putAll(more);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** The first so many records of a topic. */
    static List<ConsumerRecord<String, String>> readAlone(String topic, int count) throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        try (Consumer<String, String> consumer = openConsumer(null, Map.of())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo one : consumer.partitionsFor(topic)) partitions.add(new TopicPartition(topic, one.partition()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.currentTimeMillis() + 30_000;
            while (found.size() < count) {
                check(System.currentTimeMillis() < deadline, found.size() + " of " + count + " read in 30 s");
                for (var record : consumer.poll(Duration.ofMillis(500))) found.add(record);
            }
        }
        return found;
    }

    @SafeVarargs
    static void pollUntil(Set<String> seen, Callable<Boolean> done, Consumer<String, String>... consumers) throws Exception {
        long deadline = System.currentTimeMillis() + 40_000;
        while (!done.call()) {
            check(System.currentTimeMillis() < deadline, "not in 40 s; seen " + seen.size());
            for (var consumer : consumers)
                for (var record : consumer.poll(Duration.ofMillis(50))) seen.add(record.value());
        }
    }

    static void until(String what, Callable<Boolean> done) throws Exception {
        long deadline = System.currentTimeMillis() + 20_000;
        while (!done.call()) {
            check(System.currentTimeMillis() < deadline, what + " not in 20 s");
            Thread.sleep(20);
        }
    }

    interface Attempt { void make() throws Exception; }

    static void fails(Class<? extends Throwable> expected, Attempt attempt) {
        try {
            attempt.make();
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            check(expected.isInstance(cause), "expected " + expected.getSimpleName() + ", got " + cause);
            return;
        }
        throw new AssertionError("expected " + expected.getSimpleName());
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }
}
