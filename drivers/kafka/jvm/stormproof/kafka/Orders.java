package stormproof.kafka;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** What the program was told to do, and how its clients are set up for it. */
final class Orders {
    /** A broker waits so long for its followers before it says that they did not confirm. */
    static final int REQUEST_MS = 3000;
    /** How long a client waits to hear who leads a partition. */
    static final int BLOCK_MS = 3000;
    private static final int SESSION_MS = 6000;

    private final Map<?, ?> told;
    private final List<TopicPartition> queues = new ArrayList<>();
    private final Set<Integer> notAppended = new HashSet<>();

    Orders(String json) {
        told = Json.read(json);
        for (Object one : (List<?>) told.get("queues")) {
            Map<?, ?> queue = (Map<?, ?>) one;
            queues.add(new TopicPartition((String) queue.get("topic"), ((Number) queue.get("queue")).intValue()));
        }
        for (Object one : (List<?>) told.get("not_appended")) {
            notAppended.add(((Number) one).intValue());
        }
    }

    /** A name that no other program of the run has. */
    String name() {
        return (String) told.get("name");
    }

    /** The queues by their number in the history. */
    List<TopicPartition> queues() {
        return queues;
    }

    /** Kafka's numbers of the errors after which a message was surely not appended by the attempt that they answer. */
    Set<Integer> notAppended() {
        return notAppended;
    }

    /** How many there shall be of a kind of producers or consumers. */
    int count(String kind) {
        Object count = told.get(kind);
        return count == null ? 0 : ((Number) count).intValue();
    }

    long seed() {
        return ((Number) told.get("seed")).longValue();
    }

    /** From one send of a producer to its next one, in ns. */
    long gapNs() {
        return ((Number) told.get("gap_ns")).longValue();
    }

    /** Whether producers are idempotent, so that they can send again what was not acknowledged. */
    boolean canRepeat() {
        return (Boolean) told.get("idempotent");
    }

    /** Whether groups may have members by KIP-848. */
    boolean hasMembers() {
        return (Boolean) told.get("members");
    }

    /** {@code repeats}: it is idempotent, and sends again what was not acknowledged; else it makes one attempt. */
    Map<String, Object> producer(String process, boolean repeats, int lingerMs, int deliveryMs) {
        Map<String, Object> set = common(process);
        set.put("acks", told.get("acks"));
        set.put("enable.idempotence", repeats);
        if (!repeats) {
            set.put("retries", 0);
        }
        set.put("linger.ms", lingerMs);
        set.put("delivery.timeout.ms", deliveryMs);
        set.put("max.block.ms", BLOCK_MS);
        set.put("buffer.memory", 4 << 20);
        return set;
    }

    /** {@code byBroker}: the broker assigns its partitions (KIP-848); else a member of the group does, by this strategy. */
    Map<String, Object> consumer(String process, String group, boolean byBroker, String strategy, boolean commits) {
        Map<String, Object> set = common(process);
        set.put("group.id", group);
        if (byBroker) {
            set.put("group.protocol", "consumer");
        } else {
            set.put("partition.assignment.strategy", strategy);
            set.put("session.timeout.ms", SESSION_MS);
            set.put("heartbeat.interval.ms", 1000);
        }
        set.put("isolation.level", told.get("isolation"));
        set.put("auto.offset.reset", "earliest");
        set.put("enable.auto.commit", commits);
        set.put("auto.commit.interval.ms", 1000);
        set.put("max.poll.records", 16);
        set.put("fetch.max.wait.ms", 200);
        set.put("default.api.timeout.ms", 5000);
        set.put("allow.auto.create.topics", false);
        return set;
    }

    /** Settings of the group itself, which the brokers keep. */
    Map<String, String> shareGroup() {
        return Map.of("share.auto.offset.reset", "earliest", "share.isolation.level", (String) told.get("isolation"));
    }

    /** Each message that it is given it must acknowledge, release or reject. */
    Map<String, Object> shareConsumer(String process, String group) {
        Map<String, Object> set = common(process);
        set.put("group.id", group);
        set.put("share.acknowledgement.mode", "explicit");
        set.put("max.poll.records", 16);
        set.put("fetch.max.wait.ms", 200);
        set.put("default.api.timeout.ms", 5000);
        return set;
    }

    Map<String, Object> common(String process) {
        Map<String, Object> set = new HashMap<>();
        set.put("bootstrap.servers", told.get("bootstrap"));
        set.put("client.id", name() + "-" + process);
        set.put("request.timeout.ms", REQUEST_MS);
        set.put("metadata.max.age.ms", 1000);
        set.put("metadata.recovery.strategy", "rebootstrap");
        set.put("reconnect.backoff.max.ms", 500);
        set.put("socket.connection.setup.timeout.ms", 2000);
        set.put("socket.connection.setup.timeout.max.ms", 4000);
        return set;
    }
}
