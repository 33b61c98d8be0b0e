package stormproof.util;

/** Waiting for threads. */
public final class Threads {
    /** Wait for the end of all. An interrupt runs the action, which shall end them soon, and is kept for the caller. */
    public static void join(Thread[] threads, Runnable onInterrupt) {
        boolean interrupted = false;
        for (Thread thread : threads) {
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                    onInterrupt.run();
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private Threads() {}
}
