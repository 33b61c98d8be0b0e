package stormproof.kafka;

import stormproof.client.Harness;

/**
 * Producers and consumers with Kafka's own Java client. STORMPROOF_ORDERS in the environment is a JSON object with the
 * orders; standard output and input are Stormproof's protocol for clients that are programs (docs/history.md).
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] arguments) throws InterruptedException {
        Harness harness = new Harness(Json::write, Json::read);
        Orders orders = new Orders(System.getenv("STORMPROOF_ORDERS"));
        new Consumers(orders, harness).start();
        new ShareConsumers(orders, harness).start();
        new Transactions(orders, harness).start();
        new Producers(orders, harness).start();
        harness.awaitEnd();
        // Nothing is closed in order: a consumer would then commit what nobody has recorded.
        Runtime.getRuntime().halt(0);
    }
}
