package stormproof.util;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory and time, shared by everything that works on one history. Whoever is about to allocate more than a few
 * kilobytes asks first; a refusal means giving up, never an OutOfMemoryError. A share of a budget has a limit of its
 * own, and what is taken from it counts in the whole as well.
 */
public final class Budget {
    private final Budget whole;
    private volatile long limitBytes;
    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong peak = new AtomicLong();
    private final long deadlineNanos;

    /** {@code deadlineNanos}: on the clock of {@link System#nanoTime}. */
    public Budget(long limitBytes, long deadlineNanos) {
        this(null, limitBytes, deadlineNanos);
    }

    private Budget(Budget whole, long limitBytes, long deadlineNanos) {
        this.whole = whole;
        this.limitBytes = limitBytes;
        this.deadlineNanos = deadlineNanos;
    }

    /** At most so much of this budget, for one of several that share it; the earlier of the deadlines holds. */
    public Budget share(long bytes, long deadlineNanos) {
        return new Budget(this, bytes, deadlineNanos - this.deadlineNanos < 0 ? deadlineNanos : this.deadlineNanos);
    }

    public Budget share(long bytes) {
        return new Budget(this, bytes, deadlineNanos);
    }

    /** Another limit from now on; what is taken already stays. */
    public void limit(long bytes) {
        limitBytes = bytes;
    }

    public long limitBytes() {
        return limitBytes;
    }

    /** Take memory; false, and nothing taken, when it would pass the limit. */
    public boolean take(long bytes) {
        long now = taken.addAndGet(bytes);
        if (now > limitBytes || (whole != null && !whole.take(bytes))) {
            taken.addAndGet(-bytes);
            return false;
        }
        peak.accumulateAndGet(now, Math::max);
        return true;
    }

    public void giveBack(long bytes) {
        taken.addAndGet(-bytes);
        if (whole != null) {
            whole.giveBack(bytes);
        }
    }

    public long takenBytes() {
        return taken.get();
    }

    public long deadlineNanos() {
        return deadlineNanos;
    }

    public long peakBytes() {
        return peak.get();
    }

    public boolean timeIsUp() {
        return System.nanoTime() - deadlineNanos >= 0;
    }
}
