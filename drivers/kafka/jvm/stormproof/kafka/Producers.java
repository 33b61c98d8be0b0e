package stormproof.kafka;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import stormproof.client.Harness;
import stormproof.client.Pace;

/** All ways to send but transactions, each producer with a client of its own. */
final class Producers {
    /** How long a message may take: with its repetitions, and when there is one attempt. */
    private static final int REPEATED_MS = 10_000;
    private static final int ONCE_MS = 5000;
    /** How long a batch waits until it is complete. */
    private static final int LINGER_MS = 20;
    /** So many sends of an asynchronous producer are under way at once. */
    private static final int IN_FLIGHT = 8;
    private static final int KEYS = 20;

    private final Orders orders;
    private final Harness harness;

    Producers(Orders orders, Harness harness) {
        this.orders = orders;
        this.harness = harness;
    }

    /** Sends one message, or one batch, to a queue. */
    private interface Send {
        void send(TopicPartition queue) throws InterruptedException;
    }

    /** Makes what sends in the name of one producer. */
    private interface Kind {
        Send of(String process, KafkaProducer<byte[], byte[]> producer, Random random);
    }

    void start() {
        spawn("sync", false, 0, this::sync);
        spawn("async", orders.canRepeat(), 0, this::async);
        spawn("ordered", orders.canRepeat(), 0, this::ordered);
        spawn("batch", orders.canRepeat(), LINGER_MS, this::batch);
    }

    private void spawn(String kind, boolean repeats, int lingerMs, Kind sends) {
        for (int number = 0; number < orders.count(kind); number++) {
            String process = kind + "-" + number;
            Random random = new Random(orders.seed() + process.hashCode());
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                orders.producer(process, repeats, lingerMs, repeats ? REPEATED_MS : ONCE_MS),
                new ByteArraySerializer(), new ByteArraySerializer());
            Send send = sends.of(process, producer, random);
            Pace.start(process, orders.gapNs(), random, turn ->
                send.send(orders.queues().get(turn % orders.queues().size())));
        }
    }

    private Sent begin(String process, TopicPartition queue, String via, Runnable done, Object... more) {
        Object[] told = new Object[more.length + 2];
        told[0] = "via";
        told[1] = via;
        System.arraycopy(more, 0, told, 2, more.length);
        Harness.Operation operation = harness.begin("send", process, orders.queues().indexOf(queue), told);
        boolean once = via.equals("sync") || !orders.canRepeat();
        return new Sent(operation, queue, once ? orders.notAppended() : Set.of(), done);
    }

    /** One attempt: not idempotent, and never repeated. */
    private Send sync(String process, KafkaProducer<byte[], byte[]> producer, Random random) {
        return queue -> begin(process, queue, "sync", () -> { }).await(producer);
    }

    /** Several sends of each producer are under way at once, each by a process of its own. */
    private Send async(String process, KafkaProducer<byte[], byte[]> producer, Random random) {
        BlockingQueue<String> idle = new LinkedBlockingQueue<>();
        for (int number = 0; number < IN_FLIGHT; number++) {
            idle.add(process + "-" + number);
        }
        return queue -> {
            String mine = idle.take();
            begin(mine, queue, "async", () -> idle.add(mine)).begin(producer);
        };
    }

    /** Messages of one key go to one queue: the one that Kafka's own partitioner chooses for the key. */
    private Send ordered(String process, KafkaProducer<byte[], byte[]> producer, Random random) {
        return turn -> {
            String key = "key-" + random.nextInt(KEYS);
            int chosen = Utils.toPositive(Utils.murmur2(key.getBytes(StandardCharsets.UTF_8)));
            TopicPartition queue = orders.queues().get(chosen % orders.queues().size());
            begin(process, queue, "ordered", () -> { }, "ordering_key", key).await(producer);
        };
    }

    /** The library gathers them into as few requests as it can; each message has an outcome of its own. */
    private Send batch(String process, KafkaProducer<byte[], byte[]> producer, Random random) {
        return queue -> {
            List<Sent> messages = new ArrayList<>();
            for (int number = 0; number < orders.count("batch_size"); number++) {
                messages.add(begin(process + "-" + number, queue, "batch", () -> { }));
            }
            messages.forEach(message -> message.begin(producer));
            producer.flush();
        };
    }
}
