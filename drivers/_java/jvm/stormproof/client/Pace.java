package stormproof.client;

import java.util.Random;
import java.util.concurrent.TimeUnit;

/** Does something again and again, evenly spaced; after a long turn it goes on at the same pace, without catching up. */
public final class Pace {
    private Pace() {
    }

    /** One turn; they are numbered from 0 on. */
    public interface Turn {
        void take(int number) throws InterruptedException;
    }

    public static void start(String name, long gapNs, Random random, Turn turn) {
        Thread thread = new Thread(() -> run(gapNs, random, turn), name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void run(long gapNs, Random random, Turn turn) {
        long due = System.nanoTime() + (long) (gapNs * random.nextDouble());
        int first = random.nextInt(1000);
        try {
            for (int number = first; ; number++) {
                long now = System.nanoTime();
                TimeUnit.NANOSECONDS.sleep(due - now);
                due = Math.max(due, now) + gapNs;
                turn.take(number);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
