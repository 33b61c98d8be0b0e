package stormproof.rocketmq;

import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import stormproof.client.Harness;

/** One group of each kind of consumers. A message counts as consumed once the harness has recorded it. */
final class Consumers {
    private static final int THREADS = 4;
    private static final int BATCH = 16;
    private static final long POLL_MS = 500;

    private final Orders orders;
    private final Harness harness;
    private final Routes routes;

    Consumers(Orders orders, Harness harness, Routes routes) {
        this.orders = orders;
        this.harness = harness;
        this.routes = routes;
    }

    void start() {
        for (int number = 0; number < orders.count("push"); number++) {
            push("push", number);
        }
        for (int number = 0; number < orders.count("orderly"); number++) {
            push("orderly", number);
        }
        for (int number = 0; number < orders.count("pull"); number++) {
            pull("pull-" + number);
        }
    }

    private void push(String kind, int number) {
        Start.until("start of " + kind, () -> {
            DefaultMQPushConsumer consumer = pushed(kind, kind + "-" + number);
            Start.orShutDown(consumer::start, consumer::shutdown);
        });
    }

    private DefaultMQPushConsumer pushed(String kind, String name) throws MQClientException {
        String group = "library-" + kind;
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, routes, new AllocateMessageQueueAveragely());
        routes.prepare(consumer, name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(THREADS);
        consumer.setConsumeThreadMax(THREADS);
        consumer.setConsumeMessageBatchMaxSize(BATCH);
        consumer.subscribe(orders.topic(), "*");
        ThreadLocal<String> processes = processes(name);
        if (kind.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                record(processes.get(), group, true, messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                record(processes.get(), group, false, messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        return consumer;
    }

    /** A process of its own for each thread that delivers. */
    private static ThreadLocal<String> processes(String name) {
        AtomicInteger threads = new AtomicInteger();
        return ThreadLocal.withInitial(() -> name + "-" + threads.getAndIncrement());
    }

    private void pull(String name) {
        Start.until("start of " + name, () -> {
            DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("library-pull", routes);
            routes.prepare(consumer, name);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setAutoCommitIntervalMillis(1000);
            consumer.subscribe(orders.topic(), "*");
            Start.orShutDown(consumer::start, consumer::shutdown);
            while (true) {
                byQueue(consumer.poll(POLL_MS)).forEach((queue, messages) ->
                    record(name, "library-pull", false, messages));
            }
        });
    }

    private static Map<String, List<MessageExt>> byQueue(List<MessageExt> messages) {
        Map<String, List<MessageExt>> parts = new LinkedHashMap<>();
        for (MessageExt message : messages) {
            String queue = message.getTopic() + " " + message.getBrokerName() + " " + message.getQueueId();
            parts.computeIfAbsent(queue, name -> new ArrayList<>()).add(message);
        }
        return parts;
    }

    /** Messages of one queue. It never returns once the load is over, so that they are delivered again. */
    private void record(String process, String group, boolean inOrder, List<MessageExt> messages) {
        MessageExt first = messages.get(0);
        int queue = orders.indexOf(first.getTopic(), first.getBrokerName(), first.getQueueId());
        Harness.Operation operation =
            harness.begin("receive", process, queue, "group", group, "in_order", inOrder ? 1 : 0);
        List<Map<String, Object>> told = new ArrayList<>();
        for (MessageExt message : messages) {
            Map<String, Object> one = new LinkedHashMap<>();
            String key = message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
            one.put("offset", message.getQueueOffset());
            one.put("key", key == null ? "" : key);
            one.put("base64", Base64.getEncoder().encodeToString(message.getBody()));
            told.add(one);
        }
        operation.ok("messages", told);
    }
}
