package stormproof.rocketmq;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/** How clients are set up, and which queues a route shows them. */
final class Routes implements RPCHook {
    private final Orders orders;
    private final boolean firstQueueAlone;

    Routes(Orders orders) {
        this(orders, false);
    }

    private Routes(Orders orders, boolean firstQueueAlone) {
        this.orders = orders;
        this.firstQueueAlone = firstQueueAlone;
    }

    /** For a producer that chooses among queues by itself: it shall see the run's first queue alone. */
    Routes toFirstQueue() {
        return new Routes(orders, true);
    }

    /** What all clients have in common. {@code instance} stays the same when the program is started again. */
    void prepare(ClientConfig client, String instance) {
        client.setNamesrvAddr(orders.nameServers());
        client.setInstanceName(orders.name() + "-" + instance);
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(1000);
        client.setPersistConsumerOffsetInterval(1000);
        client.setVipChannelEnabled(false);
    }

    @Override
    public void doBeforeRequest(String address, RemotingCommand request) {
    }

    @Override
    public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
        boolean route = request.getCode() == RequestCode.GET_ROUTEINFO_BY_TOPIC;
        if (!firstQueueAlone || !route || response == null || response.getCode() != ResponseCode.SUCCESS || response.getBody() == null) {
            return;
        }
        TopicRouteData told = TopicRouteData.decode(response.getBody(), TopicRouteData.class);
        MessageQueue first = orders.queues().get(0);
        told.getQueueDatas().removeIf(queues -> !queues.getBrokerName().equals(first.getBrokerName()));
        told.getQueueDatas().forEach(queues -> queues.setWriteQueueNums(1));
        response.setBody(told.encode());
    }
}
