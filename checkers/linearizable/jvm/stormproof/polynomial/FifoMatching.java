package stormproof.polynomial;

import java.util.Arrays;
import stormproof.util.Budget;
import stormproof.util.SequenceInterner;

/**
 * Which dequeue took which enqueue's item, where values were put in more than once: a search that goes from item to
 * item, in the order in which they pass through the queue, and not from event to event. So the order of two enqueues is
 * not chosen until dequeues tell it.
 *
 * <p>The next item is an enqueue and a dequeue of one value such that nothing left has to precede them: the enqueue was
 * called before any enqueue left had returned, both were called before any dequeue left had ({@link FifoOrder}; the two
 * <em>frontiers</em>). Of the enqueues of one value in the frontier it can be the one that returned first, of the
 * dequeues as well: in a solution that takes another one now, the two can change places. If, moreover, no enqueue of
 * that value left returned before it, and no dequeue, the item can be taken at once without losing a solution. For in a
 * solution, let the enqueue go with dequeue d' and the dequeue with enqueue e'. Take the item out and put it first,
 * which is allowed and only widens the frontiers of the others, and pair e' with d' at the later one of the two places.
 * What stands between the places was allowed with the enqueue, or the dequeue, of the item left, so that it is with e',
 * or d', left, which returned later. Otherwise all values that are in both frontiers are tried; what was tried is
 * remembered by what was left.
 *
 * <p>An empty answer is next when everything that came before it can be over, and everything left can come after it:
 * its call and all calls up to now are before all returns left. It is taken as soon as that is so. An item may make
 * that impossible, namely when its dequeue was called after an enqueue left had returned: such a one is not taken at
 * once, and all dequeues of its value in the frontier are tried.
 *
 * <p>A crashed dequeue takes an item only when that enqueue is the first of those left to have returned (else the item
 * can wait), in the order of the calls of such dequeues.
 */
final class FifoMatching {
    enum Answer { FOUND, NONE, GAVE_UP }

    private static final int ABSENT = -1;
    private static final int EMPTY = -1; // the value of an empty answer
    private static final long NEVER = Long.MAX_VALUE;

    // By enqueue, by dequeue: positions, and places of values.
    private final long[] enqueueCall;
    private final long[] enqueueReturn;
    private final int[] enqueueValue;
    private final long[] dequeueCall;
    private final long[] dequeueReturn;
    private final int[] dequeueValue;
    private final long[] crashedCall; // ascending

    private final Chain enqueuesByCall;
    private final Chain enqueuesByReturn;
    private final Chain enqueuesOfValue; // by return
    private final Chain dequeuesByCall;
    private final Chain dequeuesByReturn;
    private final Chain dequeuesOfValue; // by return
    private final Chain empties; // in group 1, by call
    private final int[] enqueuePlace; // by return
    private final int[] dequeuePlace;
    private final long[] enqueuesGone; // as bits, by place
    private final long[] dequeuesGone;

    // What was taken, in order; ABSENT for the enqueue of an empty answer and for a crashed dequeue.
    private final int[] takenEnqueue;
    private final int[] takenDequeue;
    private final long[] latestBefore; // the latest call of a dequeue before
    private int taken;
    private int dequeuesLeft;
    private int crashedUsed;
    private long latest = Long.MIN_VALUE;

    private final int[] bestEnqueue; // by value: in the frontier
    private final int[] bestDequeue;
    private int[] candidates = new int[64]; // pairs
    private int candidateCount;
    private int[] choices = new int[64]; // pairs: taken items before, first candidate
    private int choiceCount;
    private final SequenceInterner tried = new SequenceInterner();
    private long[] key = new long[64];

    /** Columns as above; an empty answer has the value -1. {@code crashedCall} ascends. */
    FifoMatching(
            long[] enqueueCall,
            long[] enqueueReturn,
            int[] enqueueValue,
            long[] dequeueCall,
            long[] dequeueReturn,
            int[] dequeueValue,
            long[] crashedCall,
            int values) {
        this.enqueueCall = enqueueCall;
        this.enqueueReturn = enqueueReturn;
        this.enqueueValue = enqueueValue;
        this.dequeueCall = dequeueCall;
        this.dequeueReturn = dequeueReturn;
        this.dequeueValue = dequeueValue;
        this.crashedCall = crashedCall;
        int ins = enqueueCall.length;
        int outs = dequeueCall.length;
        int[] inByReturn = FifoOrder.sorted(ins, enqueueReturn);
        int[] outByReturn = FifoOrder.sorted(outs, dequeueReturn);
        int[] outByCall = FifoOrder.sorted(outs, dequeueCall);
        int[] outGroup = Arrays.stream(dequeueValue).map(value -> value == EMPTY ? values : value).toArray();
        enqueuesByCall = new Chain(FifoOrder.sorted(ins, enqueueCall), new int[ins], 1);
        enqueuesByReturn = new Chain(inByReturn, new int[ins], 1);
        enqueuesOfValue = new Chain(inByReturn, enqueueValue, values);
        dequeuesByCall = new Chain(outByCall, new int[outs], 1);
        dequeuesByReturn = new Chain(outByReturn, new int[outs], 1);
        dequeuesOfValue = new Chain(outByReturn, outGroup, values + 1);
        empties = new Chain(outByCall, Arrays.stream(dequeueValue).map(value -> value == EMPTY ? 1 : 0).toArray(), 2);
        enqueuePlace = inverse(inByReturn);
        dequeuePlace = inverse(outByReturn);
        enqueuesGone = new long[(ins + 63) >> 6];
        dequeuesGone = new long[(outs + 63) >> 6];
        int most = ins + outs;
        takenEnqueue = new int[most];
        takenDequeue = new int[most];
        latestBefore = new long[most];
        dequeuesLeft = outs;
        bestEnqueue = new int[values];
        bestDequeue = new int[values];
        Arrays.fill(bestEnqueue, ABSENT);
        Arrays.fill(bestDequeue, ABSENT);
    }

    private static int[] inverse(int[] order) {
        int[] place = new int[order.length];
        for (int i = 0; i < order.length; i++) {
            place[order[i]] = i;
        }
        return place;
    }

    /** Items in order: the enqueue, or -1 for an empty answer. After FOUND. */
    int taken() {
        return taken;
    }

    int enqueue(int place) {
        return takenEnqueue[place];
    }

    /** The dequeue, or -1 for a crashed one; those come in the order of their calls. */
    int dequeue(int place) {
        return takenDequeue[place];
    }

    /** {@code steps} and {@code bytes}: where to give up. */
    Answer search(long steps, long bytes, Budget budget) {
        for (long step = 0; dequeuesLeft > 0; step++) {
            if (step >= steps || tried.bytes() > bytes || (step & 1023) == 0 && budget.timeIsUp()) {
                return Answer.GAVE_UP;
            }
            if (!takeSurely() && !choose() && !backtrack()) {
                return Answer.NONE;
            }
        }
        return Answer.FOUND;
    }

    private long firstEnqueueReturn() {
        int first = enqueuesByReturn.first(0);
        return first == ABSENT ? NEVER : enqueueReturn[first];
    }

    private long firstDequeueReturn() {
        return dequeueReturn[dequeuesByReturn.first(0)];
    }

    /** Take what can be taken without losing a solution. */
    private boolean takeSurely() {
        long in = firstEnqueueReturn();
        long out = firstDequeueReturn();
        long bound = Math.min(in, out);
        int empty = empties.first(1);
        for (int d = dequeuesByCall.first(0); d != ABSENT && dequeueCall[d] < out; d = dequeuesByCall.after(d)) {
            int value = dequeueValue[d];
            if (value == EMPTY) {
                if (Math.max(latest, dequeueCall[d]) < bound) {
                    take(ABSENT, d);
                    return true;
                }
                continue;
            }
            int e = enqueuesOfValue.first(value);
            if (dequeuesOfValue.first(value) == d && e != ABSENT && enqueueCall[e] < bound && !disturbs(empty, d, in)) {
                take(e, d);
                return true;
            }
        }
        return false;
    }

    /** Whether to take this dequeue now may make an empty answer impossible that could come before it. */
    private boolean disturbs(int firstEmpty, int d, long in) {
        return firstEmpty != ABSENT && dequeueCall[firstEmpty] < dequeueReturn[d] && dequeueCall[d] > in;
    }

    /** Take one of all items that may be next, and note the others; false if there is none, or all this was tried. */
    private boolean choose() {
        int from = candidateCount;
        collect();
        if (candidateCount == from) {
            return false;
        }
        if (candidateCount > from + 2) {
            int known = tried.size();
            if (tried.number(key, writeKey()) < known) {
                candidateCount = from;
                return false;
            }
            if (choiceCount + 2 > choices.length) {
                choices = Arrays.copyOf(choices, 2 * choiceCount);
            }
            choices[choiceCount++] = taken;
            choices[choiceCount++] = from;
        }
        takeCandidate(from);
        return true;
    }

    private void collect() {
        long in = firstEnqueueReturn();
        long out = firstDequeueReturn();
        long bound = Math.min(in, out);
        for (int e = enqueuesByCall.first(0); e != ABSENT && enqueueCall[e] < bound; e = enqueuesByCall.after(e)) {
            int best = bestEnqueue[enqueueValue[e]];
            bestEnqueue[enqueueValue[e]] = best == ABSENT || enqueueReturn[e] < enqueueReturn[best] ? e : best;
        }
        for (int d = dequeuesByCall.first(0); d != ABSENT && dequeueCall[d] < out; d = dequeuesByCall.after(d)) {
            if (dequeueValue[d] != EMPTY) {
                int best = bestDequeue[dequeueValue[d]];
                bestDequeue[dequeueValue[d]] = best == ABSENT || dequeueReturn[d] < dequeueReturn[best] ? d : best;
            }
        }
        if (crashedUsed < crashedCall.length && in != NEVER) {
            int e = enqueuesByReturn.first(0);
            if (Math.max(enqueueCall[e], crashedCall[crashedUsed]) < out) {
                addCandidate(e, ABSENT);
            }
        }
        for (int d = dequeuesByCall.first(0); d != ABSENT && dequeueCall[d] < out; d = dequeuesByCall.after(d)) {
            int e = dequeueValue[d] == EMPTY ? ABSENT : bestEnqueue[dequeueValue[d]];
            if (e != ABSENT) {
                int best = bestDequeue[dequeueValue[d]];
                if (best == d || disturbs(empties.first(1), best, in)) {
                    addCandidate(e, d);
                }
            }
        }
        for (int d = dequeuesByCall.first(0); d != ABSENT && dequeueCall[d] < out; d = dequeuesByCall.after(d)) {
            if (dequeueValue[d] != EMPTY) {
                bestDequeue[dequeueValue[d]] = ABSENT;
            }
        }
        for (int e = enqueuesByCall.first(0); e != ABSENT && enqueueCall[e] < bound; e = enqueuesByCall.after(e)) {
            bestEnqueue[enqueueValue[e]] = ABSENT;
        }
    }

    private void addCandidate(int e, int d) {
        if (candidateCount + 2 > candidates.length) {
            candidates = Arrays.copyOf(candidates, 2 * candidateCount);
        }
        candidates[candidateCount++] = e;
        candidates[candidateCount++] = d;
    }

    /** Take the candidate, of those from there on, that must be over first; one for a crashed dequeue at last. */
    private void takeCandidate(int from) {
        int best = from;
        long earliest = NEVER;
        for (int i = from; i < candidateCount; i += 2) {
            int d = candidates[i + 1];
            long until = d == ABSENT ? NEVER : Math.min(enqueueReturn[candidates[i]], dequeueReturn[d]);
            if (until < earliest) {
                earliest = until;
                best = i;
            }
        }
        int e = candidates[best];
        int d = candidates[best + 1];
        candidates[best] = candidates[candidateCount - 2];
        candidates[best + 1] = candidates[candidateCount - 1];
        candidateCount -= 2;
        take(e, d);
    }

    private boolean backtrack() {
        while (choiceCount > 0) {
            while (taken > choices[choiceCount - 2]) {
                putBack();
            }
            int from = choices[choiceCount - 1];
            if (candidateCount > from) {
                takeCandidate(from);
                return true;
            }
            choiceCount -= 2;
        }
        return false;
    }

    private void take(int e, int d) {
        takenEnqueue[taken] = e;
        takenDequeue[taken] = d;
        latestBefore[taken++] = latest;
        if (e != ABSENT) {
            enqueuesByCall.take(e);
            enqueuesByReturn.take(e);
            enqueuesOfValue.take(e);
            mark(enqueuesGone, enqueuePlace[e]);
        }
        if (d == ABSENT) {
            latest = Math.max(latest, crashedCall[crashedUsed++]);
            return;
        }
        latest = Math.max(latest, dequeueCall[d]);
        dequeuesLeft--;
        dequeuesByCall.take(d);
        dequeuesByReturn.take(d);
        dequeuesOfValue.take(d);
        empties.take(d);
        mark(dequeuesGone, dequeuePlace[d]);
    }

    private void putBack() {
        int e = takenEnqueue[--taken];
        int d = takenDequeue[taken];
        latest = latestBefore[taken];
        if (d == ABSENT) {
            crashedUsed--;
        } else {
            dequeuesLeft++;
            dequeuesByCall.putBack(d);
            dequeuesByReturn.putBack(d);
            dequeuesOfValue.putBack(d);
            empties.putBack(d);
            mark(dequeuesGone, dequeuePlace[d]);
        }
        if (e != ABSENT) {
            enqueuesByCall.putBack(e);
            enqueuesByReturn.putBack(e);
            enqueuesOfValue.putBack(e);
            mark(enqueuesGone, enqueuePlace[e]);
        }
    }

    private static void mark(long[] gone, int place) {
        gone[place >> 6] ^= 1L << place;
    }

    /**
     * What is gone, in {@link #key}; its length. By returns, all are gone up to the first that is left, and few after
     * it.
     */
    private int writeKey() {
        int e = enqueuesByReturn.first(0);
        int length = write(enqueuesGone, e == ABSENT ? enqueuePlace.length : enqueuePlace[e], 0);
        int d = dequeuesByReturn.first(0);
        return write(dequeuesGone, d == ABSENT ? dequeuePlace.length : dequeuePlace[d], length);
    }

    private int write(long[] gone, int first, int from) {
        int length = from;
        key = length + 2 > key.length ? Arrays.copyOf(key, 2 * key.length) : key;
        key[length++] = ~first;
        for (int word = first >> 6; word < gone.length; word++) {
            if (gone[word] != 0) {
                key = length + 2 > key.length ? Arrays.copyOf(key, 2 * key.length) : key;
                key[length++] = word;
                key[length++] = gone[word];
            }
        }
        return length;
    }
}
