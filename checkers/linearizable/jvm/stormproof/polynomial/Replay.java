package stormproof.polynomial;

import stormproof.model.Operations;
import stormproof.model.States;

/** Goes through an order of operations as the model and real time demand it: a VALID that passes here is right. */
final class Replay {
    /**
     * Whether this order is a linearization: every completed op once, crashed ones at most once, each op before those
     * that were called after it had returned, and each step legal.
     */
    static boolean passes(Operations operations, States states, int[] order) {
        boolean[] seen = new boolean[operations.count];
        int completed = 0;
        int latestCall = -1;
        int state = states.initial();
        for (int op : order) {
            if (seen[op] || operations.ret[op] < latestCall) {
                return false;
            }
            seen[op] = true;
            completed += operations.crashed(op) ? 0 : 1;
            latestCall = Math.max(latestCall, operations.call[op]);
            state = states.step(state, operations.kind[op]);
            if (state == States.ILLEGAL) {
                return false;
            }
        }
        for (int op = 0; op < operations.count; op++) {
            completed -= operations.crashed(op) ? 0 : 1;
        }
        return completed == 0;
    }

    private Replay() {}
}
