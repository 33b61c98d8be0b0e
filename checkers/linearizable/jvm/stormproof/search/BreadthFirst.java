package stormproof.search;

import java.util.Arrays;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.util.Budget;
import stormproof.util.IntList;

/**
 * Breadth-first just-in-time search (Lowe, Testing for linearizability, 2017; Knossos's {@code linear}): return by
 * return, all configurations that can pass it; what others must come before is linearized only then. Moves and their
 * reductions: {@link SuccessorGenerator}. Only the configurations of the present level and those already beyond it are
 * kept.
 */
final class BreadthFirst implements Search {
    private static final int NONE = -1;

    private final Budget budget;
    private final boolean keepOrders;
    private final SuccessorGenerator successors;
    private long[] key = {};
    private long[] scratch = {};
    private long[] chainKey = {};
    private final Generation[] generations = new Generation[3];
    private Generation present;
    private Generation later;
    private Generation chains;
    private int level;
    private int nextBase;
    private int nextChain;
    /** All ops linearized on the way to some configuration: each with its predecessor. Only to keep orders. */
    private final IntList ops;
    private final IntList predecessors;
    private int last = NONE;
    private long configurations;
    private Status status = Status.RUNNING;

    /** Configurations, and where in {@code ops} the last op of each stands. */
    private static final class Generation {
        final ConfigurationSet set;
        final IntList origin;

        Generation(ConfigurationSet set, Budget budget) {
            this.set = set;
            this.origin = new IntList(budget);
        }

        void forget() {
            set.forget();
            origin.size = 0;
        }
    }

    BreadthFirst(Operations operations, States states, Budget budget, boolean keepOrders) {
        this(operations, states, budget, keepOrders, Abstraction.EXACT_FIRST);
    }

    /** {@code exactFirst}: configurations until doubts begin, see {@link Abstraction}. */
    BreadthFirst(Operations operations, States states, Budget budget, boolean keepOrders, long exactFirst) {
        this.budget = budget;
        this.keepOrders = keepOrders;
        successors = new SuccessorGenerator(operations, states, budget, exactFirst);
        ops = new IntList(budget);
        predecessors = new IntList(budget);
        if (successors.refused()) {
            status = Status.GAVE_UP;
        } else {
            begin();
        }
    }

    /** Begin, or begin anew with another layout. */
    private void begin() {
        closeGenerations();
        int words = successors.layout.words;
        key = new long[words];
        scratch = new long[words];
        chainKey = new long[words + 1];
        present = generations[0] = new Generation(ConfigurationSet.ofBases(successors.layout, budget), budget);
        later = generations[1] = new Generation(ConfigurationSet.ofBases(successors.layout, budget), budget);
        chains = generations[2] = new Generation(ConfigurationSet.ofChains(successors.layout, budget), budget);
        ops.size = 0;
        predecessors.size = 0;
        nextBase = 0;
        nextChain = 0;
        successors.list.size = 0;
        successors.start(scratch);
        level = Layout.level(scratch);
        if (level == successors.window.returns) {
            finish(NONE);
        } else {
            add(present, scratch, NONE);
        }
    }

    @Override
    public String name() {
        return "breadth-first";
    }

    @Override
    public Status run(long steps) {
        long left = steps;
        while (status == Status.RUNNING && left > 0) {
            left -= step();
        }
        return status;
    }

    private long step() {
        if (successors.change(configurations)) {
            begin();
            return 1;
        }
        if (nextChain < chains.set.size()) {
            int member = nextChain++;
            if (chains.set.has(member)) {
                chains.set.copyTo(member, chainKey);
                System.arraycopy(chainKey, 0, key, 0, key.length);
                long link = chainKey[key.length];
                successors.fromChain(key, (int) (link >>> 32), (int) link);
                takeMoves(origin(chains, member));
            }
        } else if (nextBase < present.set.size()) {
            int member = nextBase++;
            if (present.set.has(member)) {
                present.set.copyTo(member, key);
                if (Layout.level(key) > level) {
                    keep(later, key, origin(present, member));
                } else {
                    successors.fromBase(key);
                    takeMoves(origin(present, member));
                }
            }
        } else {
            nextLevel();
        }
        return successors.steps();
    }

    private int origin(Generation generation, int member) {
        return keepOrders ? generation.origin.items[member] : NONE;
    }

    private void takeMoves(int origin) {
        for (int move = 0; move < successors.list.size && status == Status.RUNNING; move += SuccessorGenerator.SIZE) {
            if (successors.apply(key, move, scratch)) {
                System.arraycopy(scratch, 0, chainKey, 0, key.length);
                chainKey[key.length] = (long) successors.chainState << 32 | successors.chainClass;
                add(chains, chainKey, origin);
            } else if (Layout.level(scratch) == successors.window.returns) {
                if (successors.refine(scratch)) {
                    begin();
                    return;
                }
                finish(origin);
            } else {
                add(Layout.level(scratch) == level ? present : later, scratch, origin);
            }
        }
        successors.list.size = 0;
        if (status == Status.RUNNING && (successors.refused() || ops.refused || predecessors.refused)) {
            status = Status.GAVE_UP;
        }
    }

    /** The last move completed it. An order with holes is none. */
    private void finish(int origin) {
        configurations++;
        last = remember(origin);
        status = ops.refused || predecessors.refused ? Status.GAVE_UP : Status.LINEARIZABLE;
    }

    /** Add what the last move led to. */
    private void add(Generation generation, long[] configuration, int origin) {
        int known = generation.set.size();
        keep(generation, configuration, origin);
        if (status == Status.RUNNING && generation.set.size() > known) {
            configurations++;
            if (keepOrders) {
                generation.origin.items[known] = remember(origin);
            }
        }
    }

    private void keep(Generation generation, long[] configuration, int origin) {
        int added = generation.set.add(configuration);
        if (added >= 0 && keepOrders) {
            generation.origin.add(origin);
        }
        if (added == ConfigurationSet.REFUSED || generation.origin.refused) {
            status = Status.GAVE_UP;
        }
    }

    /** Append the ops of the last move; where the last of them stands. */
    private int remember(int origin) {
        int at = origin;
        for (int i = 0; keepOrders && i < successors.appliedCount; i++) {
            ops.add(successors.applied[i]);
            predecessors.add(at);
            at = ops.size - 1;
        }
        return at;
    }

    private void nextLevel() {
        if (later.set.size() == 0) {
            status = Status.VIOLATION;
            return;
        }
        Generation passed = present;
        present = later;
        later = passed;
        later.forget();
        chains.forget();
        nextBase = 0;
        nextChain = 0;
        level = Integer.MAX_VALUE;
        for (int member = 0; member < present.set.size(); member++) {
            level = Math.min(level, (int) (present.set.firstWord(member) >>> 32));
        }
    }

    @Override
    public long configurations() {
        return configurations;
    }

    @Override
    public int[] order() {
        if (!keepOrders) {
            throw new IllegalStateException("this search was made without orders");
        }
        return orderTo(last);
    }

    private int[] orderTo(int end) {
        int length = 0;
        for (int at = end; at != NONE; at = predecessors.items[at]) {
            length++;
        }
        int[] order = new int[length];
        for (int at = end; at != NONE; at = predecessors.items[at]) {
            order[--length] = ops.items[at];
        }
        return order;
    }

    /** Without orders, and after giving up: one end that names the stuck op, and an empty order. */
    @Override
    public Furthest[] furthest(int limit) {
        if (present == null || limit <= 0 || level == successors.window.returns || status == Status.LINEARIZABLE) {
            return new Furthest[0];
        }
        int stuck = successors.window.byReturn[level];
        boolean ordered = keepOrders && status != Status.GAVE_UP;
        Ends ends = new Ends(ordered ? limit : 1);
        for (int member = 0; member < present.set.size(); member++) {
            present.set.copyTo(member, key);
            boolean here = present.set.has(member) && Layout.level(key) == level && successors.lawful(key);
            int placed = here ? successors.layout.placed(key) : 0;
            if (here && ends.wants(level, placed)) {
                int[] order = ordered ? orderTo(present.origin.items[member]) : new int[0];
                ends.note(level, placed, new Furthest(order, Layout.state(key), stuck));
            }
        }
        return ends.level() == level
                ? ends.best(limit)
                : new Furthest[] {new Furthest(new int[0], successors.initial(), stuck)};
    }

    @Override
    public void close() {
        if (status == Status.RUNNING) {
            status = Status.GAVE_UP;
        }
        closeGenerations();
        successors.close();
        ops.close();
        predecessors.close();
    }

    private void closeGenerations() {
        for (Generation generation : generations) {
            if (generation != null) {
                generation.set.close();
                generation.origin.close();
            }
        }
    }
}
