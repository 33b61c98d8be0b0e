package stormproof.kafka;

import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import stormproof.client.Harness;
import stormproof.client.Pace;

/**
 * Messages in a transaction each, which is committed or aborted. Producers have the ids of those of an earlier program,
 * whose transactions they end when they begin.
 */
final class Transactions {
    /** A transaction that its producer has left is aborted after so long. */
    private static final int LEFT_MS = 10_000;
    private static final int DELIVERY_MS = 6000;
    /** How long a begin or an end may take, over a change of the broker that coordinates it. */
    private static final int BLOCK_MS = 10_000;
    private static final int PAUSE_MS = 500;

    private final Orders orders;
    private final Harness harness;

    Transactions(Orders orders, Harness harness) {
        this.orders = orders;
        this.harness = harness;
    }

    void start() {
        for (int number = 0; number < orders.count("transaction"); number++) {
            Owner owner = new Owner("transaction-" + number);
            Random random = new Random(orders.seed() + owner.process.hashCode());
            Pace.start(owner.process, orders.gapNs(), random, turn ->
                owner.transact(orders.queues().get(turn % orders.queues().size()), random.nextInt(3) > 0));
        }
        for (int number = 0; number < orders.count("answer_checks"); number++) {
            Owner owner = new Owner("transaction-" + number);
            Pace.start(owner.process, Duration.ofSeconds(1).toNanos(), new Random(), turn -> owner.takeOver());
        }
    }

    /** The one that owns an id, through one client after another. */
    private final class Owner {
        private final String process;
        private KafkaProducer<byte[], byte[]> producer;

        Owner(String process) {
            this.process = process;
        }

        /** End what an earlier owner has left, once for each client. */
        void takeOver() throws InterruptedException {
            while (producer == null) {
                Map<String, Object> set = orders.producer(process, true, 0, DELIVERY_MS);
                set.put("acks", "all");
                set.put("max.block.ms", BLOCK_MS);
                set.put("transactional.id", orders.name() + "-" + process);
                set.put("transaction.timeout.ms", LEFT_MS);
                KafkaProducer<byte[], byte[]> made =
                    new KafkaProducer<>(set, new ByteArraySerializer(), new ByteArraySerializer());
                try {
                    made.initTransactions();
                    producer = made;
                } catch (RuntimeException error) {
                    System.err.println(process + ": " + Sent.reason(error));
                    made.close(Duration.ZERO);
                    Thread.sleep(PAUSE_MS);
                }
            }
        }

        void transact(TopicPartition queue, boolean commits) throws InterruptedException {
            takeOver();
            Harness.Operation operation = harness.begin("transact", process, orders.queues().indexOf(queue),
                "via", "end", "decision", commits ? "commit" : "rollback");
            try {
                producer.beginTransaction();
                producer.send(Sent.record(operation, queue)).get();
            } catch (ExecutionException | RuntimeException error) {
                // nobody has asked for its commit, and nobody will
                operation.fail(Sent.reason(error));
                giveUp();
                return;
            }
            try {
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                operation.ok();
            } catch (RuntimeException error) {
                operation.unknown(Sent.reason(error));
                giveUp();
            }
        }

        /** Leave the transaction to the next client of this id. */
        private void giveUp() {
            producer.close(Duration.ZERO);
            producer = null;
        }
    }
}
