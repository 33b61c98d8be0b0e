package stormproof;

import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Consumer;
import stormproof.io.Findings;
import stormproof.io.Packed;
import stormproof.model.History;
import stormproof.util.Threads;

/**
 * Judges the histories of a batch, several at a time, each in one thread and with its share of the memory. One that
 * this was too little for is judged again when it can have everything for itself. Results are handed on in the order
 * of the batch.
 */
final class Batch {
    /** Judges one history; told whether it has the machine for itself, and how much of its time is spent already. */
    interface Judge {
        Findings judge(History history, boolean alone, double spentSeconds);
    }

    private final Packed packed;
    private final Judge judge;
    private final boolean orders;
    private final Consumer<String> results;
    private final int threads;
    private final boolean concurrent;
    private final ReadWriteLock machine = new ReentrantReadWriteLock();
    // Guarded by this.
    private final String[] done;
    private int taken;
    private int handedOn;
    private RuntimeException failure;
    private int failedAt = Integer.MAX_VALUE;

    Batch(Packed packed, Judge judge, int threads, boolean orders, Consumer<String> results) {
        this.packed = packed;
        this.threads = Math.min(threads, packed.histories);
        this.concurrent = this.threads > 1;
        this.judge = judge;
        this.orders = orders;
        this.results = results;
        this.done = new String[packed.histories];
    }

    /** Run to the end. An exception is thrown once what came before is handed on. */
    void run() {
        Thread[] helpers = new Thread[Math.max(0, threads - 1)];
        for (int i = 0; i < helpers.length; i++) {
            helpers[i] = new Thread(this::work, "stormproof-batch-" + (i + 1));
            helpers[i].setDaemon(true);
            helpers[i].start();
        }
        work();
        Threads.join(helpers, () -> {});
        if (failure != null) {
            throw failure;
        }
    }

    private void work() {
        int place = 0;
        try {
            while (true) {
                History history;
                synchronized (this) {
                    if (taken == packed.histories || failure != null) {
                        return;
                    }
                    place = taken++;
                    history = packed.next();
                }
                hand(place, judge(history));
            }
        } catch (RuntimeException e) {
            synchronized (this) {
                if (place < failedAt) {
                    failedAt = place;
                    failure = e;
                }
            }
        }
    }

    private String judge(History history) {
        try {
            Findings findings;
            machine.readLock().lock();
            try {
                findings = judge.judge(history, false, 0);
            } finally {
                machine.readLock().unlock();
            }
            if (concurrent && findings.wantsMemory()) {
                machine.writeLock().lock();
                try {
                    double before = findings.milliseconds();
                    findings = judge.judge(history, true, before / 1e3).after(before);
                } finally {
                    machine.writeLock().unlock();
                }
            }
            return findings.toJson(orders);
        } catch (OutOfMemoryError e) {
            return Findings.heapExhausted(history).toJson(orders); // budgets are there to prevent this
        }
    }

    private synchronized void hand(int place, String result) {
        done[place] = result;
        while (handedOn < done.length && done[handedOn] != null) {
            results.accept(done[handedOn]);
            done[handedOn++] = null;
        }
    }
}
