package stormproof.rocketmq;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.java.message.MessageViewImpl;
import org.apache.rocketmq.common.consumer.ReceiptHandle;
import stormproof.client.Harness;

/**
 * A group of pop consumers, by RocketMQ's gRPC client: they ask a proxy for messages, which are then invisible to the
 * group for a while, and acknowledge each once the harness has recorded it.
 */
final class Pops {
    private static final String GROUP = "library-pop";
    /** The shortest that a proxy grants. */
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    /** How long a request waits for messages; a proxy grants no less. */
    private static final Duration WAIT = Duration.ofSeconds(5);
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    private static final int BATCH = 16;
    private static final int PAUSE_MS = 200;
    /** A message's key is its number in hexadecimal digits; those before the last ten are the number of its queue. */
    private static final int KEY_DIGITS = 32;
    private static final int QUEUE_DIGITS = 22;

    private final Orders orders;
    private final Harness harness;

    Pops(Orders orders, Harness harness) {
        this.orders = orders;
        this.harness = harness;
    }

    void start() {
        for (int number = 0; number < orders.count("pop"); number++) {
            String name = "pop-" + number;
            Thread thread = new Thread(() -> run(name), name);
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void run(String name) {
        SimpleConsumer consumer = null;
        while (true) {
            try {
                consumer = consumer == null ? begin() : consumer;
                List<MessageView> messages = consumer.receive(BATCH, INVISIBLE);
                if (messages.isEmpty()) {
                    harness.begin("receive", name, 0, "group", GROUP, "in_order", 0).ok("messages", List.of());
                } else {
                    take(name, consumer, messages);
                }
            } catch (ClientException | RuntimeException error) {
                System.err.println(name + ": " + error);
                pause();
            }
        }
    }

    private SimpleConsumer begin() throws ClientException {
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(orders.proxies())
            .enableSsl(false)
            .setRequestTimeout(TIMEOUT)
            .build();
        return ClientServiceProvider.loadService().newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(GROUP)
            .setAwaitDuration(WAIT)
            .setSubscriptionExpressions(Map.of(orders.topic(), FilterExpression.SUB_ALL))
            .build();
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void take(String name, SimpleConsumer consumer, List<MessageView> messages) {
        Map<Integer, List<Map<String, Object>>> parts = new TreeMap<>();
        for (MessageView message : messages) {
            if (handle(message).isRetryTopic()) {
                harness.begin("receive_again", name, queueOf(message), "group", GROUP, "key", keyOf(message),
                    "base64", bodyOf(message)).ok();
            } else {
                parts.computeIfAbsent(queueOf(message), queue -> new ArrayList<>()).add(shown(message));
            }
        }
        parts.forEach((queue, told) ->
            harness.begin("receive", name, queue, "group", GROUP, "in_order", 0).ok("messages", told));
        List<CompletableFuture<Void>> acks = new ArrayList<>();
        for (MessageView message : messages) {
            acks.add(acknowledge(name + "-ack-" + acks.size(), consumer, message));
        }
        CompletableFuture.allOf(acks.toArray(new CompletableFuture<?>[0])).join();
    }

    /** All of a batch are under way at once, each by a process of its own. */
    private CompletableFuture<Void> acknowledge(String process, SimpleConsumer consumer, MessageView message) {
        Harness.Operation operation =
            harness.begin("ack", process, queueOf(message), "group", GROUP, "key", keyOf(message));
        return consumer.ackAsync(message).handle((done, error) -> {
            if (error == null) {
                operation.ok();
            } else {
                Outcomes.notAcknowledged(operation, error);
            }
            return null;
        });
    }

    private static Map<String, Object> shown(MessageView message) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("offset", handle(message).getOffset());
        one.put("key", keyOf(message));
        one.put("base64", bodyOf(message));
        return one;
    }

    private static String bodyOf(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] body = new byte[buffer.remaining()];
        buffer.get(body);
        return Base64.getEncoder().encodeToString(body);
    }

    /**
     * Where a message stands for everybody. What was not acknowledged in time comes again from a queue of the group's
     * own, to which the broker has copied it; then only its key tells.
     */
    private int queueOf(MessageView message) {
        ReceiptHandle handle = handle(message);
        String key = keyOf(message);
        if (handle.isRetryTopic() && key.length() == KEY_DIGITS) {
            return Integer.parseInt(key.substring(0, QUEUE_DIGITS), 16);
        }
        return orders.indexOf(message.getTopic(), handle.getBrokerName(), handle.getQueueId());
    }

    private static ReceiptHandle handle(MessageView message) {
        return ReceiptHandle.decode(((MessageViewImpl) message).getReceiptHandle());
    }

    private static String keyOf(MessageView message) {
        return message.getMessageId().toString();
    }
}
