package stormproof.kafka;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import stormproof.client.Harness;

/** One group of each kind of consumers, all in the order of the partitions. What was recorded is committed. */
final class Consumers {
    private static final Duration POLL = Duration.ofMillis(500);
    private static final Duration CLOSE = Duration.ofSeconds(1);
    private static final int PAUSE_MS = 500;

    private final Orders orders;
    private final Harness harness;
    private final Set<String> topics;

    Consumers(Orders orders, Harness harness) {
        this.orders = orders;
        this.harness = harness;
        this.topics = orders.queues().stream().map(TopicPartition::topic).collect(Collectors.toSet());
    }

    /** What a consumer does after it has recorded what a poll gave it. */
    private interface Commit {
        void commit(KafkaConsumer<byte[], byte[]> consumer);
    }

    void start() {
        spawn("push", orders.hasMembers(), RangeAssignor.class.getName(), true, consumer -> { });
        spawn("orderly", false, CooperativeStickyAssignor.class.getName(), false, KafkaConsumer::commitSync);
        spawn("pull", false, RangeAssignor.class.getName(), false, KafkaConsumer::commitAsync);
    }

    private void spawn(String kind, boolean byBroker, String strategy, boolean commits, Commit commit) {
        for (int number = 0; number < orders.count(kind); number++) {
            String process = kind + "-" + number;
            String group = "library-" + kind;
            Map<String, Object> set = orders.consumer(process, group, byBroker, strategy, commits);
            Thread thread = new Thread(() -> run(process, group, set, commit), process);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** A client that can't go on is followed by another one. */
    private void run(String process, String group, Map<String, Object> set, Commit commit) {
        try {
            while (true) {
                KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(set, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                try {
                    consumer.subscribe(topics);
                    while (true) {
                        follow(process, group, consumer, commit);
                    }
                } catch (RuntimeException error) {
                    System.err.println(process + ": " + Sent.reason(error));
                }
                close(process, consumer);
                Thread.sleep(PAUSE_MS);
            }
        } catch (RuntimeException error) {
            Harness.give(process + ": a consumer can't be made: " + Sent.reason(error));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static void close(String process, KafkaConsumer<byte[], byte[]> consumer) {
        try {
            consumer.close(CLOSE);
        } catch (RuntimeException error) {
            System.err.println(process + ": close: " + Sent.reason(error));
        }
    }

    private void follow(String process, String group, KafkaConsumer<byte[], byte[]> consumer, Commit commit) {
        ConsumerRecords<byte[], byte[]> found = consumer.poll(POLL);
        for (TopicPartition queue : found.partitions()) {
            record(harness, orders, process, queue, found.records(queue), "group", group, "in_order", 1);
        }
        if (!found.isEmpty()) {
            try {
                commit.commit(consumer);
            } catch (KafkaException error) { // then the next owner of these partitions is given some of it again
                System.err.println(process + ": commit: " + Sent.reason(error));
            }
        }
    }

    /** It never returns once the load is over, so that nothing of this is committed. */
    static void record(
            Harness harness, Orders orders, String process, TopicPartition queue,
            List<ConsumerRecord<byte[], byte[]>> messages, Object... more) {
        Harness.Operation operation = harness.begin("receive", process, orders.queues().indexOf(queue), more);
        List<Map<String, Object>> told = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> message : messages) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("offset", message.offset());
            one.put("key", keyOf(message));
            byte[] body = message.value() == null ? new byte[0] : message.value();
            one.put("base64", Base64.getEncoder().encodeToString(body));
            told.add(one);
        }
        operation.ok("messages", told);
    }

    static String keyOf(ConsumerRecord<byte[], byte[]> message) {
        return message.key() == null ? "" : new String(message.key(), StandardCharsets.UTF_8);
    }
}
