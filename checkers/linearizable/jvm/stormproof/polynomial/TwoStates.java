package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Operations;
import stormproof.util.LongHeap;

/**
 * Operations on an object that has two states. Each needs one of them, and then leaves it (a <em>look</em>: contains,
 * an add that changed nothing) or turns it (a <em>flip</em>: acquire, an add that changed something); or it leaves a
 * given state whatever it found (a <em>setter</em>: an add that was not told whether it changed anything). O(n log n).
 *
 * <p>Go through the events. A look takes effect at its call, or as soon as the state is the one that it needs. A flip
 * waits until it must act: at its own return, or when something else returns that needs the state to which it leads;
 * then, of those that wait, the one that must return first acts, and crashed ones last. If none waits, there is no
 * linearization.
 *
 * <p>Proof sketch, without setters: take a linearization and the first event where it differs. If it flips where
 * nothing forces it to, it flips back later, by an operation that was there already, or it flips for something that is
 * forced later. In the first case take both flips out: they can stand as the next pair that is needed, and looks in
 * between were served when they were called or are served by the flip that their return forces. In the second case the
 * flip can as well wait. If it takes another flip of the same direction, let the two change places: the one that is to
 * return first stands where the other stood, and the other, which returns later and was called by then, where it stood.
 *
 * <p>A setter at its return does nothing where the state is right, else it acts, or lets a flip that waits act. That is
 * exact if it crashed (then it is only one more flip, the last to be used), or if nothing leads to the other state
 * (then the object turns once, and a flip, if there is one, must be what turns it). Otherwise only the orders found are
 * certain.
 */
final class TwoStates {
    private final Operations operations;
    /** By op: the state that it needs (of a setter: the state that it does not leave). */
    private final byte[] needs;
    private final byte[] type;

    static final byte LOOK = 0;
    static final byte FLIP = 1;
    static final byte SETTER = 2;

    private final boolean[] done;
    /** By op: when it took effect, and the number of its step; to be sorted. */
    private final long[] moments;
    private int steps;

    TwoStates(Operations operations) {
        this.operations = operations;
        needs = new byte[operations.count];
        type = new byte[operations.count];
        done = new boolean[operations.count];
        moments = new long[operations.count];
    }

    void set(int op, int type, int needs) {
        this.type[op] = (byte) type;
        this.needs[op] = (byte) needs;
    }

    /**
     * Go through the operations on one object, in the order of their calls. The op that could not be placed, else -1.
     */
    int run(int[] ops, int initial) {
        return new Run(initial).run(ops);
    }

    /** Whether a failure to place an operation of these is a violation. */
    boolean isExact(int[] ops) {
        boolean setters = false;
        boolean[] leads = new boolean[2];
        for (int op : ops) {
            setters |= type[op] == SETTER && !operations.crashed(op);
            leads[1 - needs[op]] |= type[op] != LOOK;
        }
        return !setters || !(leads[0] && leads[1]);
    }

    /** All ops that took effect, by their moments. */
    int[] order() {
        long[] sorted = new long[operations.count];
        int count = 0;
        for (int op = 0; op < operations.count; op++) {
            if (done[op]) {
                sorted[count++] = moments[op];
            }
        }
        int[] byStep = new int[steps];
        for (int op = 0; op < operations.count; op++) {
            if (done[op]) {
                byStep[(int) moments[op] & Integer.MAX_VALUE] = op;
            }
        }
        Arrays.sort(sorted, 0, count);
        int[] order = new int[count];
        for (int i = 0; i < count; i++) {
            order[i] = byStep[(int) sorted[i] & Integer.MAX_VALUE];
        }
        return order;
    }

    /** One object. */
    private final class Run {
        private int state;
        private final LongHeap[] flips = {new LongHeap(), new LongHeap()}; // by state needed; return and op
        private final LongHeap[] setters = {new LongHeap(), new LongHeap()};
        private final LongHeap[] looks = {new LongHeap(), new LongHeap()};

        Run(int initial) {
            state = initial;
        }

        int run(int[] ops) {
            long[] returns = new long[ops.length];
            int count = 0;
            for (int op : ops) {
                if (!operations.crashed(op)) {
                    returns[count++] = key(op);
                }
            }
            Arrays.sort(returns, 0, count);
            int next = 0;
            for (int i = 0; i < count; i++) {
                int op = (int) returns[i];
                while (next < ops.length && operations.call[ops[next]] < operations.ret[op]) {
                    called(ops[next++]);
                }
                if (!done[op] && !force(op)) {
                    return op;
                }
            }
            return -1;
        }

        private long key(int op) {
            return (long) operations.ret[op] << 32 | op;
        }

        private void called(int op) {
            LongHeap[] waiting = type[op] == LOOK ? looks : type[op] == FLIP ? flips : setters;
            if (type[op] == LOOK && needs[op] == state) {
                act(op, 2L * operations.call[op] + 1);
            } else {
                waiting[needs[op]].add(key(op));
            }
        }

        private boolean force(int op) {
            long moment = 2L * operations.ret[op] - 1;
            if (type[op] == SETTER) {
                if (needs[op] == state && !turn(flips[state], moment)) {
                    turnBy(op, moment);
                } else {
                    act(op, moment);
                }
                return true;
            }
            if (needs[op] != state && !turn(flips[state], moment) && !turn(setters[state], moment)) {
                return false;
            }
            if (type[op] == FLIP) {
                turnBy(op, moment);
            }
            return true;
        }

        private boolean turn(LongHeap waiting, long moment) {
            while (!waiting.isEmpty()) {
                int op = (int) waiting.poll();
                if (!done[op]) {
                    turnBy(op, moment);
                    return true;
                }
            }
            return false;
        }

        private void turnBy(int op, long moment) {
            act(op, moment);
            state = 1 - state;
            while (!looks[state].isEmpty()) {
                act((int) looks[state].poll(), moment);
            }
        }

        private void act(int op, long moment) {
            done[op] = true;
            moments[op] = moment << 31 | steps++;
        }
    }
}
