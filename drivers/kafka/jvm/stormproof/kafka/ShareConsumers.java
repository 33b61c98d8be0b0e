package stormproof.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import stormproof.client.Harness;

/**
 * A share group (KIP-932): its consumers share all partitions, and acknowledge each message by itself once the harness
 * has recorded it. Some are released, so that they are given again, and a few rejected, which ends them for the group.
 */
final class ShareConsumers {
    private static final String GROUP = "library-pop";
    /** Kafka's number of settings of groups, which have no name in the client of 3.9. */
    private static final byte GROUPS = 32;
    private static final Duration POLL = Duration.ofMillis(500);
    private static final Duration COMMIT = Duration.ofSeconds(5);
    private static final Duration CLOSE = Duration.ofSeconds(1);
    private static final int PAUSE_MS = 500;
    /** Of a hundred messages so many are released, and so many rejected. */
    private static final int RELEASED = 3;
    private static final int REJECTED = 1;

    private final Orders orders;
    private final Harness harness;
    private final Set<String> topics;

    ShareConsumers(Orders orders, Harness harness) {
        this.orders = orders;
        this.harness = harness;
        this.topics = orders.queues().stream().map(TopicPartition::topic).collect(Collectors.toSet());
    }

    void start() {
        for (int number = 0; number < orders.count("pop"); number++) {
            String process = "pop-" + number;
            Thread thread = new Thread(() -> run(process), process);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** A client that can't go on is followed by another one. */
    private void run(String process) {
        Random random = new Random(process.hashCode());
        try {
            setUp(process);
            while (true) {
                ShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                    orders.shareConsumer(process, GROUP), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                try {
                    consumer.subscribe(topics);
                    while (true) {
                        take(process, consumer, consumer.poll(POLL), random);
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

    /** Without its settings the group would begin at the end of each partition, and be given what is aborted. */
    private void setUp(String process) throws InterruptedException {
        ConfigResource group = new ConfigResource(ConfigResource.Type.forId(GROUPS), GROUP);
        List<AlterConfigOp> set = orders.shareGroup().entrySet().stream()
            .map(one -> new ConfigEntry(one.getKey(), one.getValue()))
            .map(one -> new AlterConfigOp(one, AlterConfigOp.OpType.SET))
            .collect(Collectors.toList());
        try (Admin admin = Admin.create(orders.common(process + "-admin"))) {
            while (true) {
                try {
                    admin.incrementalAlterConfigs(Map.of(group, set)).all().get();
                    return;
                } catch (ExecutionException error) {
                    System.err.println(process + ": settings of the group: " + error.getCause());
                    Thread.sleep(PAUSE_MS);
                }
            }
        }
    }

    private static void close(String process, ShareConsumer<byte[], byte[]> consumer) {
        try {
            consumer.close(CLOSE);
        } catch (RuntimeException error) {
            System.err.println(process + ": close: " + Sent.reason(error));
        }
    }

    void take(
            String process, ShareConsumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> found, Random random) {
        for (TopicPartition queue : found.partitions()) {
            Consumers.record(
                harness, orders, process, queue, found.records(queue), "group", GROUP, "in_order", 0);
        }
        Map<TopicPartition, List<Harness.Operation>> acknowledged = new HashMap<>();
        int begun = 0;
        for (ConsumerRecord<byte[], byte[]> message : found) {
            int drawn = random.nextInt(100);
            if (drawn < RELEASED + REJECTED) {
                consumer.acknowledge(message, drawn < RELEASED ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT);
                continue;
            }
            TopicPartition queue = new TopicPartition(message.topic(), message.partition());
            acknowledged.computeIfAbsent(queue, one -> new ArrayList<>()).add(
                harness.begin("ack", process + "-ack-" + begun++, orders.queues().indexOf(queue), "group", GROUP,
                    "key", Consumers.keyOf(message)));
            consumer.acknowledge(message, AcknowledgeType.ACCEPT);
        }
        if (!found.isEmpty()) {
            commit(consumer, acknowledged);
        }
    }

    /** The library says of each partition how its acknowledgements ended, of all that were asked for together. */
    private static void commit(
            ShareConsumer<byte[], byte[]> consumer, Map<TopicPartition, List<Harness.Operation>> acknowledged) {
        Map<TopicPartition, Optional<KafkaException>> ends = new HashMap<>();
        try {
            consumer.commitSync(COMMIT).forEach((queue, end) -> ends.put(queue.topicPartition(), end));
        } finally {
            acknowledged.forEach((queue, operations) -> {
                Optional<KafkaException> end = ends.get(queue);
                for (Harness.Operation operation : operations) {
                    if (end == null) {
                        operation.unknown("the library does not say how it ended");
                    } else if (end.isPresent()) {
                        operation.unknown(Sent.reason(end.get()));
                    } else {
                        operation.ok();
                    }
                }
            });
        }
    }
}
