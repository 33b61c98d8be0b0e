package stormproof.search;

import java.util.Arrays;
import stormproof.model.Function;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.util.Budget;
import stormproof.util.IntList;

/**
 * What may come next after a configuration. A search need not try everything: whenever a configuration can be completed
 * at all, one of the moves listed here leads to one that can be completed with fewer operations (or, counting returns
 * to be passed instead of completions, gets as far with fewer). So a search that visits every configuration to which
 * these moves lead, but for those that a visited one dominates ({@link ConfigurationSet}), misses nothing: of the
 * visited ones that can be completed take the one with the shortest completion; its move leads to a configuration that
 * is visited, or dominated by one that is, and has a shorter completion.
 *
 * <p>Why these moves are enough. Take, of the shortest completions, one in which crashed ops stand as late as possible
 * (the sum of their places is largest), and of those the one whose next crashed ops have the smallest classes.
 * <ol>
 * <li>An <em>observer</em> leaves every state in which it is legal as it is. One that is available and legal now may as
 *     well come now: the states that the others see remain, and an available op may go before any that is left. (This
 *     does not hold for an op that leaves only this state as it is: a write of the present value may be needed later.)
 * <li>Of available ops of one kind the one with the earliest return comes first, crashed ones last: exchange the two;
 *     the states remain, and what stood between them was not called after the earlier of the returns.
 * <li>A crashed op c is worth its use only for the op x right after it. If x has the same outcome without c, leave c
 *     out: the completion was not the shortest (so it is with any x that overwrites). If x and then c leads to the same
 *     state as c and then x, c was not as late as possible, or, when x crashed too, both orders exist and one is
 *     enough. If c leaves the state, or c and x lead back to it, leave them out.
 * <li>After a crashed op an observer that has become legal comes next, by the argument of 1.
 * </ol> Moves therefore go from one configuration whose last op completed (a <em>base</em>) to the next, over a
 * <em>chain</em> of crashed ops. What may follow in a chain depends on its last op and the state before that; so these
 * belong to the configurations inside a chain, and such configurations are told apart by them. Chains of one op are
 * passed at once.
 */
final class SuccessorGenerator {
    /** Ints that describe one move in {@link #list}: class of a crashed op that goes first or -1, target, state. */
    static final int SIZE = 3;
    private static final int WORK_PER_STEP = 64;
    private static final long BYTES_PER_OP = 8 + 40; // ten ends of branches among them, see Ends
    private static final long BYTES_PER_KIND = 24;

    final Window window;
    /** Changes when the search begins anew. */
    Layout layout;
    /** Moves are appended here; cutting off is left to the search. */
    final IntList list;
    /** The ops of the last {@link #apply}, in order; -1: one more of a class than there are. */
    int[] applied;
    int appliedCount;
    /** Of the last {@link #apply}, when it led into a chain: the state before its last op, and that op's class. */
    int chainState;
    int chainClass;

    private final Operations operations;
    private final Memo memo;
    private final Abstraction abstraction;
    private final Budget budget;
    private final boolean[] observer; // by kind
    private final boolean[] overwrites; // by kind
    private final int[] dependent; // the classes that do not overwrite
    private final boolean anyObserver;
    private final long fixedBytes;
    private final boolean granted;
    private long work;

    // The completed ops available at the configuration at hand, one of each kind: observers, and others.
    private final int[] observers;
    private int observerCount;
    private final int[] others;
    private int otherCount;
    private final int[] dependents; // of the others, those that do not overwrite
    private int dependentCount;
    private final int[] seen; // by kind: the turn in which a completed op of that kind was available
    private int turn;

    SuccessorGenerator(Operations operations, States states, Budget budget, long exactFirst) {
        this.operations = operations;
        this.budget = budget;
        fixedBytes = Window.bytes(operations) + BYTES_PER_OP * operations.count + BYTES_PER_KIND * operations.kinds;
        granted = budget.take(fixedBytes);
        window = granted ? new Window(operations, budget) : null;
        abstraction = granted ? new Abstraction(window, exactFirst) : null;
        layout = granted ? abstraction.layout() : null;
        memo = new Memo(states, operations.kinds, budget);
        list = new IntList(budget);
        int kinds = granted ? operations.kinds : 0;
        observer = new boolean[kinds];
        overwrites = new boolean[kinds];
        boolean any = false;
        for (int kind = 0; kind < kinds; kind++) {
            observer[kind] = observes(operations.function[kind], operations.arguments[kind]);
            overwrites[kind] = overwrites(operations.function[kind]);
            any |= observer[kind];
        }
        anyObserver = any;
        dependent = granted ? dependentClasses() : new int[0];
        seen = new int[kinds];
        int width = granted ? window.slots : 0;
        observers = new int[width];
        others = new int[width];
        dependents = new int[width];
        applied = new int[granted ? operations.count + 2 : 0];
    }

    /** Whether ops of this kind leave every state in which they are legal as it is. */
    static boolean observes(int function, long[] arguments) {
        switch (function) {
            case Function.CAS:
                return arguments.length == 2 && arguments[0] == arguments[1];
            case Function.ADD:
                return arguments.length == 2 && arguments[1] == 0;
            case Function.REMOVE:
                return arguments[1] == 0;
            case Function.DEQUEUE:
                return arguments[0] == Function.NIL;
            case Function.TXN:
                for (int i = 0; i < arguments.length; i += 3) {
                    if (arguments[i] != Function.READ) {
                        return false;
                    }
                }
                return true;
            default:
                return Function.observes(function);
        }
    }

    /** Whether ops of this kind are legal in every state and lead from all to the same. */
    static boolean overwrites(int function) {
        return function == Function.WRITE || function == Function.DELETE;
    }

    private int[] dependentClasses() {
        int[] classes = new int[window.classes];
        int count = 0;
        for (int c = 0; c < window.classes; c++) {
            if (!overwrites[window.classKind[c]]) {
                classes[count++] = c;
            }
        }
        return Arrays.copyOf(classes, count);
    }

    /** Whether memory was refused. Moves may be missing then: the search must give up. */
    boolean refused() {
        return !granted || memo.refused() || list.refused || window.refused();
    }

    /** The steps that the work since the last call is worth; at least one. */
    long steps() {
        long steps = 1 + work / WORK_PER_STEP;
        work = 0;
        return steps;
    }

    /**
     * Whether the search shall begin anew, with another {@link #layout}, as it has been going on for long.
     *
     * @param configurations how many it has visited
     */
    boolean change(long configurations) {
        if (!abstraction.due(configurations)) {
            return false;
        }
        abstraction.change(configurations);
        layout = abstraction.layout();
        return true;
    }

    /** Whether the end of a search is spurious: then it shall begin anew, with another {@link #layout}. */
    boolean refine(long[] key) {
        if (lawful(key)) {
            return false;
        }
        abstraction.refine(layout, key);
        layout = abstraction.layout();
        return true;
    }

    /** Whether no class of crashed ops was used beyond its means on the way to here; see {@link Abstraction}. */
    boolean lawful(long[] key) {
        return abstraction.lawful(layout, key);
    }

    /** The first configuration; {@link #applied} are the observers that come before anything else. */
    void start(long[] key) {
        Layout.setState(key, memo.initial());
        appliedCount = 0;
        observe(key);
    }

    int initial() {
        return memo.initial();
    }

    private int toOf(int level) {
        window.from(level);
        return window.to(level);
    }

    /** List the moves from a base, the most promising first: completed ops by their returns, crashed ones last. */
    void fromBase(long[] key) {
        int level = Layout.level(key);
        int state = Layout.state(key);
        collect(key, level);
        for (int i = 0; i < otherCount; i++) {
            int next = memo.step(state, operations.kind[others[i]]);
            if (next != States.ILLEGAL) {
                add(-1, others[i], next);
            }
        }
        for (int c = 0; c < window.classes && window.called(c, level); c++) {
            if (mayUse(key, c, 0, level)) {
                int next = memo.step(state, window.classKind[c]);
                if (next != States.ILLEGAL && next != state) {
                    follow(key, level, state, c, next, c);
                }
            }
        }
    }

    /** List the moves from inside a chain: its last op is of the class and was applied to the state before. */
    void fromChain(long[] key, int stateBefore, int lastClass) {
        int level = Layout.level(key);
        collect(key, level);
        follow(key, level, stateBefore, lastClass, Layout.state(key), -1);
    }

    /** What may come after a crashed op; {@code via}: its class when it is part of the moves, else -1. */
    private void follow(long[] key, int level, int before, int last, int state, int via) {
        work += observerCount + dependentCount + 1;
        for (int i = 0; i < observerCount; i++) {
            if (memo.step(state, operations.kind[observers[i]]) == state) {
                add(via, observers[i], state);
                return;
            }
        }
        int lastKind = window.classKind[last];
        for (int i = 0; i < dependentCount; i++) {
            int kind = operations.kind[dependents[i]];
            int next = memo.step(state, kind);
            if (next != States.ILLEGAL) {
                int without = memo.step(before, kind);
                if (without != next && !leads(without, lastKind, next)) {
                    add(via, dependents[i], next);
                }
            }
        }
        for (int c : dependent) {
            work++;
            if (!window.called(c, level)) {
                return;
            }
            if (!mayUse(key, c, c == via ? 1 : 0, level)) {
                continue;
            }
            int kind = window.classKind[c];
            int next = memo.step(state, kind);
            if (next != States.ILLEGAL && next != state && next != before) {
                int without = memo.step(before, kind);
                if (without != next && !(c < last && leads(without, lastKind, next))) {
                    add(via, ~c, next);
                }
            }
        }
    }

    private boolean leads(int from, int kind, int to) {
        return from != States.ILLEGAL && memo.step(from, kind) == to;
    }

    private boolean mayUse(long[] key, int cls, int more, int level) {
        return seen[window.classKind[cls]] != turn
                && (!abstraction.counts(cls) || window.crashedOp(cls, layout.count(key, cls) + more, level) >= 0);
    }

    private void collect(long[] key, int level) {
        turn++;
        observerCount = 0;
        otherCount = 0;
        dependentCount = 0;
        int to = toOf(level);
        int from = window.from(level);
        work += to - from;
        for (int at = from; at < to; at++) {
            int op = window.openOp(at);
            int kind = operations.kind[op];
            if (seen[kind] != turn && !Layout.has(key, window.slot[op])) {
                seen[kind] = turn;
                if (observer[kind]) {
                    observers[observerCount++] = op;
                } else {
                    others[otherCount++] = op;
                    if (!overwrites[kind]) {
                        dependents[dependentCount++] = op;
                    }
                }
            }
        }
    }

    private void add(int via, int target, int state) {
        list.add(via);
        list.add(target);
        list.add(state);
    }

    /**
     * Make the move at this place of {@link #list}: {@code from} becomes {@code to}.
     *
     * @return whether it leads into a chain
     */
    boolean apply(long[] from, int move, long[] to) {
        int via = list.items[move];
        int target = list.items[move + 1];
        int state = list.items[move + 2];
        System.arraycopy(from, 0, to, 0, layout.words);
        appliedCount = 0;
        if (via >= 0) {
            use(to, via);
        }
        Layout.setState(to, state);
        if (target < 0) {
            chainClass = ~target;
            chainState = Layout.state(from);
            if (via >= 0) {
                chainState = memo.step(chainState, window.classKind[via]);
            }
            use(to, chainClass);
            return true;
        }
        place(to, target);
        observe(to);
        return false;
    }

    private void use(long[] key, int cls) {
        int op = window.crashedOp(cls, layout.count(key, cls), Layout.level(key));
        applied[appliedCount++] = op;
        if (op >= 0) {
            layout.countUp(key, cls);
        } else {
            layout.overuse(key, cls);
        }
    }

    private void place(long[] key, int op) {
        applied[appliedCount++] = op;
        int level = Layout.level(key);
        if (window.rank[op] != level) {
            Layout.flip(key, window.slot[op]);
            return;
        }
        level++;
        while (level < window.returns && Layout.has(key, window.slot[window.byReturn[level]])) {
            Layout.flip(key, window.slot[window.byReturn[level]]);
            level++;
        }
        Layout.setLevel(key, level);
    }

    /** Linearize all observers that are legal. */
    private void observe(long[] key) {
        if (!anyObserver) {
            return;
        }
        int state = Layout.state(key);
        int level = Layout.level(key);
        while (level < window.returns) {
            int to = toOf(level);
            work += (to - window.from(level)) >> 1;
            for (int at = window.from(level); at < to; at++) {
                int op = window.openOp(at);
                if (observer[operations.kind[op]]
                        && !Layout.has(key, window.slot[op])
                        && memo.step(state, operations.kind[op]) == state) {
                    place(key, op);
                    if (Layout.level(key) != level) {
                        break;
                    }
                }
            }
            int before = level;
            level = Layout.level(key);
            if (level == before) {
                return;
            }
        }
    }

    void close() {
        if (granted) {
            memo.close();
            list.close();
            window.close();
            budget.giveBack(fixedBytes);
        }
    }
}
