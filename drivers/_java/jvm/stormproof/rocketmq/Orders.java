package stormproof.rocketmq;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** What the program was told to do. */
final class Orders {
    private final Map<?, ?> told;
    private final List<MessageQueue> queues = new ArrayList<>();

    Orders(String json) {
        told = RemotingSerializable.fromJson(json, Map.class);
        for (Object one : (List<?>) told.get("queues")) {
            Map<?, ?> queue = (Map<?, ?>) one;
            int number = ((Number) queue.get("queue")).intValue();
            queues.add(new MessageQueue((String) queue.get("topic"), (String) queue.get("broker"), number));
        }
    }

    /** A name that no other program of the run has. */
    String name() {
        return (String) told.get("name");
    }

    String nameServers() {
        return (String) told.get("nameservers");
    }

    /** {@code HOST:PORT} of each proxy. */
    String proxies() {
        return (String) told.get("proxies");
    }

    /** The queues by their number in the history. */
    List<MessageQueue> queues() {
        return queues;
    }

    String topic() {
        return queues.get(0).getTopic();
    }

    /** The number in the history of a queue; -1 for one that is none of the run's. */
    int indexOf(String topic, String broker, int queue) {
        return queues.indexOf(new MessageQueue(topic, broker, queue));
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
}
