package stormproof.rocketmq;

import org.apache.rocketmq.client.exception.MQClientException;

/** A client asks for routes when it is started, and can't be started when nobody answers in time. */
final class Start {
    private static final int PAUSE_MS = 500;

    private Start() {
    }

    /** What may fail since the cluster does not answer. */
    interface Step {
        void take() throws MQClientException;
    }

    /** Try again until it is done, in a thread of its own. */
    static void until(String what, Step step) {
        Thread thread = new Thread(() -> {
            while (true) {
                try {
                    step.take();
                    return;
                } catch (MQClientException | RuntimeException error) {
                    System.err.println(what + ": " + error);
                }
                try {
                    Thread.sleep(PAUSE_MS);
                } catch (InterruptedException error) {
                    return;
                }
            }
        }, what);
        thread.setDaemon(true);
        thread.start();
    }

    /** A client that could not be started must be shut down, else its group is taken. */
    static void orShutDown(Step start, Runnable shutDown) throws MQClientException {
        try {
            start.take();
        } catch (MQClientException | RuntimeException error) {
            shutDown.run();
            throw error;
        }
    }
}
