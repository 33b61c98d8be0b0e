package stormproof.rocketmq;

import java.util.Set;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import stormproof.client.Harness;

/** What the end of a send says of what became of the message: only what is sure is called sure. */
final class Outcomes {
    /** It has no name in the first versions. */
    private static final int INVALID_PARAMETER = 29;
    /** A broker that answers so has surely not stored the message. */
    private static final Set<Integer> NOT_STORED = Set.of(
        ResponseCode.SYSTEM_BUSY, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, INVALID_PARAMETER);
    private static final String TOO_FEW_REPLICAS = "in-sync replicas not enough";
    /** What versions before 5.2 say, without a cause, of an asynchronous send whose answer did not come. */
    private static final Pattern WAITED = Pattern.compile("wait response timeout|unknow|send request failed");
    private static final int SHOWN = 300;

    private Outcomes() {
    }

    /** {@code number}: the message's place in what was sent with it. */
    static void sent(Harness.Operation operation, MessageQueue queue, SendResult result, int number) {
        MessageQueue stored = result.getMessageQueue();
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            operation.unknown(result.getSendStatus() + ": the master has stored it, and it may yet be lost");
        } else if (stored != null && stored.getQueueId() != queue.getQueueId()) {
            Harness.give("a message to " + queue + " was stored in " + stored);
        } else {
            operation.ok("offset", result.getQueueOffset() + number, "message_id", result.getOffsetMsgId());
        }
    }

    /** The broker has taken it, and will store it in its queue later, or never. */
    static void accepted(Harness.Operation operation, SendResult result) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            operation.ok("message_id", result.getOffsetMsgId());
        } else {
            operation.unknown(result.getSendStatus() + ": the master has stored it, and it may yet be lost");
        }
    }

    static void notSent(Harness.Operation operation, Throwable error) {
        if (surelyNot(error)) {
            operation.fail(reason(error));
        } else {
            operation.unknown(reason(error));
        }
    }

    /** An acknowledgement whose answer did not come, or says no, may still have done something. */
    static void notAcknowledged(Harness.Operation operation, Throwable error) {
        operation.unknown(reason(error));
    }

    private static String reason(Throwable error) {
        String reason = error.getClass().getSimpleName() + ": " + error.getMessage();
        if (error.getCause() != null && error.getCause() != error) {
            reason += ": " + error.getCause();
        }
        return reason.length() > SHOWN ? reason.substring(0, SHOWN) : reason;
    }

    /** RemotingSendRequestException is not sure: the client also throws it when a connection ends amid a request. */
    private static boolean surelyNot(Throwable error) {
        if (error instanceof MQBrokerException) {
            MQBrokerException refused = (MQBrokerException) error;
            String why = String.valueOf(refused.getErrorMessage());
            return NOT_STORED.contains(refused.getResponseCode()) || why.contains(TOO_FEW_REPLICAS);
        }
        if (error instanceof RemotingConnectException) {
            return true;
        }
        if (error instanceof RemotingException || error instanceof InterruptedException) {
            return false;
        }
        if (error instanceof MQClientException) {
            Throwable cause = error.getCause(); // without one, no broker was asked: there is no route, or no such queue
            return cause == null ? !WAITED.matcher(String.valueOf(error.getMessage())).find() : surelyNot(cause);
        }
        // What the client throws when it could not ask a name server for the route.
        return error instanceof IllegalStateException && error.getCause() != null && surelyNot(error.getCause());
    }
}
