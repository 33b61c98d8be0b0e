package stormproof.rocketmq;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageQueue;
import stormproof.client.Harness;
import stormproof.client.Pace;

/** All ways to send but transactions. Each send is one attempt: the client's own retries are turned off. */
final class Producers {
    /** A master waits 3 s for its slaves before it says that they did not confirm. */
    private static final int TIMEOUT_MS = 5000;
    /** So many sends of an asynchronous producer are under way at once. */
    private static final int IN_FLIGHT = 8;
    private static final int KEYS = 20;
    /** RocketMQ's levels of delay, from 1 on, and what each stands for. */
    private static final long[] LEVELS_MS = {1000, 5000, 10_000};
    /** Other delays; a broker rounds the time at which it delivers such a message down to whole seconds. */
    private static final int SHORTEST_MS = 1500;
    private static final int LONGEST_MS = 9000;
    private static final long PRECISION_MS = 1000;

    private final Orders orders;
    private final Harness harness;
    private final Routes routes;
    private DefaultMQProducer producer;

    Producers(Orders orders, Harness harness, Routes routes) {
        this.orders = orders;
        this.harness = harness;
        this.routes = routes;
    }

    /** Sends one message, or one batch, to a queue; {@code process} is the sending producer. */
    private interface Send {
        void send(String process, MessageQueue queue, Random random) throws InterruptedException;
    }

    void start() {
        Start.until("start of producers", this::begin);
    }

    private void begin() throws MQClientException {
        producer = new DefaultMQProducer("library-producers", routes);
        routes.prepare(producer, "producers");
        oneAttempt(producer);
        Start.orShutDown(producer::start, producer::shutdown);
        spawn("sync", this::sync);
        spawn("async", new Asynchronous());
        spawn("ordered", this::ordered);
        spawn("batch", this::batch);
        spawn("delay", this::delay);
    }

    static void oneAttempt(DefaultMQProducer producer) {
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.setRetryAnotherBrokerWhenNotStoreOK(false);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
    }

    /** A message that carries its key as the id that RocketMQ's clients give to each message. */
    static Message message(String topic, Harness.Operation operation) {
        Message message = new Message(topic, operation.body);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, operation.key);
        return message;
    }

    private void spawn(String kind, Send send) {
        for (int number = 0; number < orders.count(kind); number++) {
            String process = kind + "-" + number;
            Random random = new Random(orders.seed() + process.hashCode());
            Pace.start(process, orders.gapNs(), random, turn -> {
                send.send(process, orders.queues().get(turn % orders.queues().size()), random);
            });
        }
    }

    private Harness.Operation begin(String process, MessageQueue queue, String via) {
        return harness.begin("send", process, orders.queues().indexOf(queue), "via", via);
    }

    private void sync(String process, MessageQueue queue, Random random) {
        Harness.Operation operation = begin(process, queue, "sync");
        try {
            Outcomes.sent(operation, queue, producer.send(message(queue.getTopic(), operation), queue), 0);
        } catch (Exception error) {
            Outcomes.notSent(operation, error);
        }
    }

    /** Several sends of each producer are under way at once, each by a process of its own. */
    private final class Asynchronous implements Send {
        private final Map<String, List<String>> free = new ConcurrentHashMap<>();
        private final Map<String, Semaphore> slots = new ConcurrentHashMap<>();

        @Override
        public void send(String producerName, MessageQueue queue, Random random) throws InterruptedException {
            List<String> idle = free.computeIfAbsent(producerName, Asynchronous::processes);
            Semaphore slot = slots.computeIfAbsent(producerName, name -> new Semaphore(IN_FLIGHT));
            slot.acquire();
            String process;
            synchronized (idle) {
                process = idle.remove(idle.size() - 1);
            }
            Harness.Operation operation = begin(process, queue, "async");
            Runnable done = () -> {
                synchronized (idle) {
                    idle.add(process);
                }
                slot.release();
            };
            SendCallback callback = once(operation, queue, done);
            try {
                producer.send(message(queue.getTopic(), operation), queue, callback);
            } catch (Exception error) {
                callback.onException(error);
            }
        }

        private static List<String> processes(String producerName) {
            List<String> names = new ArrayList<>();
            for (int number = 0; number < IN_FLIGHT; number++) {
                names.add(producerName + "-" + number);
            }
            return names;
        }
    }

    /** The client may throw and call back as well; the first that it says counts. */
    private static SendCallback once(Harness.Operation operation, MessageQueue queue, Runnable done) {
        return new SendCallback() {
            private boolean told;

            private synchronized boolean first() {
                boolean first = !told;
                told = true;
                return first;
            }

            @Override
            public void onSuccess(SendResult result) {
                if (first()) {
                    Outcomes.sent(operation, queue, result, 0);
                    done.run();
                }
            }

            @Override
            public void onException(Throwable error) {
                if (first()) {
                    Outcomes.notSent(operation, error);
                    done.run();
                }
            }
        };
    }

    /** Messages of one key go to one queue, which the selector finds by the key alone. */
    private void ordered(String process, MessageQueue turn, Random random) {
        String key = "key-" + random.nextInt(KEYS);
        MessageQueue expected = choose(orders.queues(), key);
        Harness.Operation operation =
            harness.begin("send", process, orders.queues().indexOf(expected), "via", "ordered", "ordering_key", key);
        MessageQueueSelector selector = (queues, message, by) -> {
            MessageQueue chosen = choose(orders.queues(), (String) by);
            return queues.contains(chosen) ? chosen : null;
        };
        try {
            Message message = message(expected.getTopic(), operation);
            Outcomes.sent(operation, expected, producer.send(message, selector, key), 0);
        } catch (Exception error) {
            Outcomes.notSent(operation, error);
        }
    }

    private static MessageQueue choose(List<MessageQueue> queues, String key) {
        return queues.get(Math.floorMod(key.hashCode(), queues.size()));
    }

    /** All messages of a batch have the outcome of the one request; each is an operation of its own. */
    private void batch(String process, MessageQueue queue, Random random) {
        List<Harness.Operation> operations = new ArrayList<>();
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < orders.count("batch_size"); number++) {
            operations.add(begin(process + "-" + number, queue, "batch"));
            messages.add(message(queue.getTopic(), operations.get(number)));
        }
        try {
            SendResult result = producer.send(messages, queue);
            for (int number = 0; number < operations.size(); number++) {
                Outcomes.sent(operations.get(number), queue, result, number);
            }
        } catch (Exception error) {
            operations.forEach(operation -> Outcomes.notSent(operation, error));
        }
    }

    /** Either one of RocketMQ's levels, or any time, which its timer keeps. */
    private void delay(String process, MessageQueue queue, Random random) {
        boolean level = random.nextBoolean();
        int number = random.nextInt(LEVELS_MS.length);
        long asked = level ? LEVELS_MS[number] : SHORTEST_MS + random.nextInt(LONGEST_MS - SHORTEST_MS);
        long promised = level ? asked : asked - PRECISION_MS;
        Harness.Operation operation = harness.begin("delay", process, orders.queues().indexOf(queue),
            "via", level ? "level" : "timer", "delay_ms", promised);
        Message message = message(queue.getTopic(), operation);
        if (level) {
            message.setDelayTimeLevel(number + 1);
        } else {
            message.setDelayTimeMs(asked);
        }
        try {
            SendResult result = producer.send(message, queue);
            Outcomes.accepted(operation, result);
        } catch (Exception error) {
            Outcomes.notSent(operation, error);
        }
    }
}
