package stormproof.kafka;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import stormproof.client.Harness;

/** One message on its way, and what its end says of what became of it: only what is sure is called sure. */
final class Sent implements Callback {
    private static final int SHOWN = 300;

    private final Harness.Operation operation;
    private final TopicPartition queue;
    private final Set<Integer> notAppended;
    private final Runnable done;
    private final Thread sender = Thread.currentThread();
    private boolean ended;

    /** {@code notAppended}: the errors that say so of the only attempt; none where there may have been several. */
    Sent(Harness.Operation operation, TopicPartition queue, Set<Integer> notAppended, Runnable done) {
        this.operation = operation;
        this.queue = queue;
        this.notAppended = notAppended;
        this.done = done;
    }

    /** Give the message to the library, which will say how it ended. */
    void begin(Producer<byte[], byte[]> producer) {
        try {
            producer.send(record(operation, queue), this);
        } catch (RuntimeException error) {
            onCompletion(null, error);
        }
    }

    /** Send the message, and wait until that has ended. */
    void await(Producer<byte[], byte[]> producer) throws InterruptedException {
        try {
            producer.send(record(operation, queue), this).get();
        } catch (ExecutionException error) {
            // the library has called back
        } catch (RuntimeException error) {
            onCompletion(null, error);
        }
    }

    static ProducerRecord<byte[], byte[]> record(Harness.Operation operation, TopicPartition queue) {
        byte[] key = operation.key.getBytes(StandardCharsets.UTF_8);
        return new ProducerRecord<>(queue.topic(), queue.partition(), key, operation.body);
    }

    /** The library may throw and call back as well; the first that it says counts. */
    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        synchronized (this) {
            if (ended) {
                return;
            }
            ended = true;
        }
        if (error != null && surelyNot(error)) {
            operation.fail(reason(error));
        } else if (error != null) {
            operation.unknown(reason(error));
        } else if (metadata.partition() != queue.partition()) {
            Harness.give("a message to " + queue + " was stored in partition " + metadata.partition());
        } else if (!metadata.hasOffset()) {
            operation.unknown("an earlier attempt has stored it, at an offset that the broker has not said");
        } else {
            operation.ok("offset", metadata.offset());
        }
        done.run();
    }

    /** What the library calls a failure before it returns from sending was never given to the thread that sends. */
    private boolean surelyNot(Exception error) {
        if (Thread.currentThread() == sender) {
            return error instanceof TimeoutException;
        }
        return notAppended.contains((int) Errors.forException(error).code());
    }

    static String reason(Exception error) {
        String reason = error.getClass().getSimpleName() + ": " + error.getMessage();
        if (error instanceof KafkaException && error.getCause() != null) {
            reason += ": " + error.getCause();
        }
        return reason.length() > SHOWN ? reason.substring(0, SHOWN) : reason;
    }
}
