package stormproof;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory and time, shared by everything that works on one call of the checker. Whoever is about to allocate more than a
 * few kilobytes asks first; a refusal means giving up, never an OutOfMemoryError.
 */
final class Budget {
    private final long limitBytes;
    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong peak = new AtomicLong();
    private final long deadlineNanos;

    /** {@code deadlineNanos}: on the clock of {@link System#nanoTime}. */
    Budget(long limitBytes, long deadlineNanos) {
        this.limitBytes = limitBytes;
        this.deadlineNanos = deadlineNanos;
    }

    /** Take memory; false, and nothing taken, when it would pass the limit. */
    boolean take(long bytes) {
        long now = taken.addAndGet(bytes);
        if (now > limitBytes) {
            taken.addAndGet(-bytes);
            return false;
        }
        peak.accumulateAndGet(now, Math::max);
        return true;
    }

    void giveBack(long bytes) {
        taken.addAndGet(-bytes);
    }

    long peakBytes() {
        return peak.get();
    }

    boolean timeIsUp() {
        return System.nanoTime() - deadlineNanos >= 0;
    }
}
