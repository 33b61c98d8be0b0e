package stormproof.polynomial;

import stormproof.model.Decision;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.util.Budget;

/**
 * What the polynomial algorithms share: memory is taken from the budget first, and an order is replayed step by step
 * before anybody hears of it, so that a mistake in an algorithm can cost an answer but never make a wrong VALID.
 */
abstract class Polynomial implements Shortcut {
    /** A generous bound for the columns of an algorithm and the states that a replay goes through. */
    private static final long BYTES_PER_OPERATION = 512;

    private final String name;
    private final Model model;

    Polynomial(String name, Model model) {
        this.name = name;
        this.model = model;
    }

    /** A proof, an order that is still to be replayed, or null. */
    abstract Decision attempt(Operations operations, long[] init, String[] values, Budget budget);

    @Override
    public final String name() {
        return name;
    }

    @Override
    public final Decision decide(Operations operations, long[] init, String[] values, Budget budget) {
        long bytes = 4096 + BYTES_PER_OPERATION * operations.count;
        if (!budget.take(bytes)) {
            return null;
        }
        try {
            Decision decision = attempt(operations, init, values, budget);
            if (decision == null || !decision.valid()) {
                return decision;
            }
            States states = model.states(operations, init, values);
            return Replay.passes(operations, states, decision.order()) ? decision : null;
        } finally {
            budget.giveBack(bytes);
        }
    }
}
