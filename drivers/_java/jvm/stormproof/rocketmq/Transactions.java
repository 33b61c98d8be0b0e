package stormproof.rocketmq;

import java.util.Random;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import stormproof.client.Harness;
import stormproof.client.Pace;

/**
 * Messages that are committed or rolled back: at once, or only when the broker asks back. The decision travels with the
 * message, so that a program that was started again decides the same.
 */
final class Transactions implements TransactionListener {
    private static final String DECISION = "stormproof_decision";

    private final Orders orders;
    private final Harness harness;
    private final Routes routes;

    Transactions(Orders orders, Harness harness, Routes routes) {
        this.orders = orders;
        this.harness = harness;
        this.routes = routes;
    }

    void start() {
        if (orders.count("transaction") + orders.count("answer_checks") > 0) {
            Start.until("start of transactions", this::begin);
        }
    }

    private void begin() throws MQClientException {
        TransactionMQProducer producer = new TransactionMQProducer("library-transactions", routes.toFirstQueue());
        routes.prepare(producer, "transactions");
        Producers.oneAttempt(producer);
        producer.setTransactionListener(this);
        // A producer that has sent nothing yet knows no broker, and none could ask it back.
        producer.getDefaultMQProducerImpl().getTopicPublishInfoTable().putIfAbsent(orders.topic(), new TopicPublishInfo());
        Start.orShutDown(producer::start, producer::shutdown);
        for (int number = 0; number < orders.count("transaction"); number++) {
            String process = "transaction-" + number;
            Random random = new Random(orders.seed() + process.hashCode());
            Pace.start(process, orders.gapNs(), random, turn -> transact(producer, process, random));
        }
    }

    private void transact(TransactionMQProducer producer, String process, Random random) {
        String decision = random.nextInt(3) > 0 ? "commit" : "rollback";
        boolean checked = random.nextInt(3) == 0;
        Harness.Operation operation = harness.begin("transact", process, 0,
            "via", checked ? "check" : "end", "decision", decision);
        Message message = Producers.message(orders.topic(), operation);
        message.putUserProperty(DECISION, decision);
        try {
            TransactionSendResult result = producer.sendMessageInTransaction(message, checked);
            Outcomes.accepted(operation, result);
        } catch (Exception error) {
            Outcomes.notSent(operation, error);
        }
    }

    /** {@code checked}: leave it open, so that the broker has to ask. */
    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object checked) {
        return (Boolean) checked ? LocalTransactionState.UNKNOW : decision(message);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        return decision(message);
    }

    private static LocalTransactionState decision(Message message) {
        boolean commit = "commit".equals(message.getUserProperty(DECISION));
        return commit ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }
}
