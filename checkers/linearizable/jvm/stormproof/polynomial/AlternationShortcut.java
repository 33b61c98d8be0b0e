package stormproof.polynomial;

import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.util.Budget;

/** A mutex: acquires and releases flip its {@link TwoStates}. Decides always, in O(n log n). */
final class AlternationShortcut extends Polynomial {
    AlternationShortcut(Model model) {
        super("alternation", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        TwoStates states = new TwoStates(operations);
        int[] ops = new int[operations.count];
        for (int op = 0; op < ops.length; op++) {
            ops[op] = op;
            states.set(op, TwoStates.FLIP, operations.functionOf(op) == Function.ACQUIRE ? 0 : 1);
        }
        int stuck = states.run(ops, init.length > 0 && init[0] != 0 ? 1 : 0);
        if (stuck < 0) {
            return Decision.linearizable(states.order());
        }
        boolean acquire = operations.functionOf(stuck) == Function.ACQUIRE;
        String what = acquire
                ? " acquired a mutex that was held: every release called by then is used up"
                : " released a mutex that was free: every acquire called by then is used up";
        return Decision.violation("operation " + operations.number[stuck] + what);
    }
}
