package stormproof.rocketmq;

import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import stormproof.client.Harness;

/**
 * Producers and consumers with RocketMQ's own Java client. STORMPROOF_ORDERS in the environment is a JSON object with the
 * orders; standard output and input are Stormproof's protocol for clients that are programs (docs/history.md).
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        Orders orders = new Orders(System.getenv("STORMPROOF_ORDERS"));
        Harness harness = new Harness(
            line -> RemotingSerializable.toJson(line, false), line -> RemotingSerializable.fromJson(line, Map.class));
        Routes routes = new Routes(orders);
        new Consumers(orders, harness, routes).start();
        if (orders.count("pop") > 0) { // else the gRPC client, whose classes this one names, is not on the class path
            new Pops(orders, harness).start();
        }
        new Transactions(orders, harness, routes).start();
        new Producers(orders, harness, routes).start();
        harness.awaitEnd();
        // Nothing is shut down in order: a consumer would then tell the broker of messages that nobody has recorded.
        Runtime.getRuntime().halt(0);
    }
}
