package stormproof.rocketmq;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/** How clients reach brokers: a route names addresses of the cluster's own network, and clients stand outside of it. */
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
        if (!route || response == null || response.getCode() != ResponseCode.SUCCESS || response.getBody() == null) {
            return;
        }
        TopicRouteData told = TopicRouteData.decode(response.getBody(), TopicRouteData.class);
        for (BrokerData broker : told.getBrokerDatas()) {
            HashMap<Long, String> reached = new HashMap<>();
            for (Map.Entry<Long, String> one : broker.getBrokerAddrs().entrySet()) {
                String port = one.getValue().substring(one.getValue().lastIndexOf(':') + 1);
                Object endpoint = orders.endpoints().get(port);
                reached.put(one.getKey(), endpoint == null ? one.getValue() : (String) endpoint);
            }
            broker.setBrokerAddrs(reached);
        }
        if (firstQueueAlone) {
            MessageQueue first = orders.queues().get(0);
            told.getQueueDatas().removeIf(queues -> !queues.getBrokerName().equals(first.getBrokerName()));
            told.getQueueDatas().forEach(queues -> queues.setWriteQueueNums(1));
        }
        response.setBody(told.encode());
    }
}
