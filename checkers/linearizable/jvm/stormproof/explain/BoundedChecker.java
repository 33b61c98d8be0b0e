package stormproof.explain;

import java.util.ArrayList;
import java.util.List;
import stormproof.model.Decision;
import stormproof.model.History;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.model.SubHistory;
import stormproof.partition.Parts;
import stormproof.polynomial.Shortcut;
import stormproof.polynomial.Shortcuts;
import stormproof.search.Search;
import stormproof.search.SearchRun;
import stormproof.util.Budget;

/** Judges one partition within so many steps: for the many small questions that make up a {@link Witness}. */
public final class BoundedChecker {
    private static final long SLICE = 250; // steps
    private static final long LEAST_COST = 10; // steps, of a search
    private static final long WORTH_BOTH = 10_000; // steps

    private final Model model;
    private final History history;
    private final Budget budget;
    private long stepsLeft;
    // Of the present phase.
    private long stepsKept;
    private long phaseEnd;

    /** {@code steps}: in all. */
    public BoundedChecker(Model model, History history, Budget budget, long steps) {
        this.model = model;
        this.history = history;
        this.budget = budget;
        this.stepsLeft = steps;
        phase(1);
    }

    States states(Operations operations) {
        return model.states(operations, history.init(), history.values());
    }

    /** No more steps than these from now on. */
    void limit(long steps) {
        stepsLeft = Math.min(stepsLeft, steps);
        phase(1);
    }

    /** From now on so large a share of what is left of time and steps may be spent. */
    void phase(double share) {
        long now = System.nanoTime();
        stepsKept = (long) (stepsLeft * (1 - share));
        phaseEnd = now + (long) ((budget.deadlineNanos() - now) * share);
    }

    /** Whether time is up or all steps are done, in this phase. */
    boolean spent() {
        return stepsLeft <= stepsKept || System.nanoTime() - phaseEnd >= 0;
    }

    Operations withoutVain(Operations operations) {
        return SubHistory.withoutVainDequeues(operations, history.init());
    }

    List<Operations> parts(Operations operations) {
        return Parts.of(operations, model);
    }

    /**
     * The verdict, a violation perhaps without a reason; null when the steps (of each search) or the budget end
     * first.
     */
    Decision judge(Operations operations, long steps) {
        List<Operations> parts = parts(operations);
        if (parts.size() == 1) {
            return judgePart(parts.get(0), steps);
        }
        List<int[]> orders = new ArrayList<>(parts.size());
        boolean unclear = false;
        for (Operations part : parts) {
            Decision decision = judgePart(part, steps);
            if (decision == null) {
                unclear = true;
            } else if (decision.valid()) {
                orders.add(decision.order());
            } else {
                return Decision.violation(decision.reason(), opsOf(operations, part, decision.culprits()));
            }
        }
        if (unclear) {
            return null;
        }
        int[] order = Parts.merged(parts, orders);
        for (int i = 0; i < order.length; i++) {
            order[i] = operations.opOf(order[i]);
        }
        return Decision.linearizable(order);
    }

    private static int[] opsOf(Operations whole, Operations part, int[] partOps) {
        int[] ops = new int[partOps.length];
        for (int i = 0; i < ops.length; i++) {
            ops[i] = whole.opOf(part.number[partOps[i]]);
        }
        return ops;
    }

    private Decision judgePart(Operations operations, long steps) {
        if (operations.count == 0) {
            return Decision.linearizable(new int[0]);
        }
        for (Shortcut shortcut : Shortcuts.of(model)) {
            Decision decision = shortcut.decide(operations, history.init(), history.values(), budget);
            if (decision != null) {
                return decision;
            }
        }
        return search(operations, states(operations), steps);
    }

    /**
     * The verdict of the searches alone, on any states; the breadth-first one helps only when there are steps for it.
     */
    Decision search(Operations operations, States states, long steps) {
        Decision decision = null;
        for (SearchRun.Kind kind : SearchRun.Kind.values()) {
            Search search = kind.search(operations, states, budget, true);
            try {
                Search.Status status = run(search, states, steps);
                if (status == Search.Status.LINEARIZABLE) {
                    decision = Decision.linearizable(search.order());
                } else if (status == Search.Status.VIOLATION && !hopeless(states)) {
                    decision = Decision.violation("");
                }
            } finally {
                search.close();
            }
            if (decision != null || steps < WORTH_BOTH || hopeless(states) || spent()) {
                break;
            }
        }
        return decision;
    }

    /** The longest branches of a partition that is not linearizable; empty when that can't be told within the steps. */
    Search.Furthest[] deadEnds(Operations operations, int limit, long steps) {
        States states = states(operations);
        Search search = SearchRun.Kind.BREADTH_FIRST.search(operations, states, budget, true);
        try {
            boolean violation = run(search, states, steps) == Search.Status.VIOLATION;
            return violation ? search.furthest(limit) : new Search.Furthest[0];
        } finally {
            search.close();
        }
    }

    private Search.Status run(Search search, States states, long steps) {
        Search.Status status = Search.Status.RUNNING;
        for (long left = steps; left > 0 && status == Search.Status.RUNNING; left -= SLICE) {
            if (spent() || hopeless(states)) {
                break;
            }
            long before = search.configurations();
            status = search.run(SLICE);
            stepsLeft -= Math.min(SLICE, LEAST_COST + search.configurations() - before);
        }
        return status;
    }

    private static boolean hopeless(States states) {
        return states instanceof PowersetModel choices && choices.tooMany();
    }
}
