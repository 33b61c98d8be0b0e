package stormproof.search;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import stormproof.model.Function;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.util.Budget;

/** Both searches against all orders of random small histories. Exits with 1 and a message when they disagree. */
public final class SearchTest {
    private static final long PLENTY = 1L << 30;

    /** A history of one object, and what is known about it by trying everything. */
    private static final class Case {
        final String name;
        final Operations operations;
        final Maker states;
        final int[] byReturn;
        boolean linearizable;
        int passed; // returns that can be passed

        Case(String name, Operations operations, Maker states) {
            this.name = name;
            this.operations = operations;
            this.states = states;
            byReturn = java.util.stream.IntStream.range(0, operations.count)
                    .filter(op -> !operations.crashed(op))
                    .boxed()
                    .sorted((a, b) -> Integer.compare(operations.ret[a], operations.ret[b]))
                    .mapToInt(op -> op)
                    .toArray();
            tryAll();
        }

        private void tryAll() {
            States model = states.make(operations);
            List<boolean[]> visited = new ArrayList<>();
            explore(model, model.initial(), 0, visited);
        }

        private void explore(States model, int state, int done, List<boolean[]> visited) {
            while (visited.size() <= state) {
                visited.add(new boolean[1 << operations.count]);
            }
            if (visited.get(state)[done]) {
                return;
            }
            visited.get(state)[done] = true;
            int level = 0;
            while (level < byReturn.length && (done >> byReturn[level] & 1) != 0) {
                level++;
            }
            passed = Math.max(passed, level);
            linearizable |= level == byReturn.length;
            for (int op = 0; op < operations.count; op++) {
                boolean free = (done >> op & 1) == 0;
                for (int other = 0; other < operations.count; other++) {
                    free &= (done >> other & 1) != 0 || operations.ret[other] >= operations.call[op];
                }
                int next = free ? model.step(state, operations.kind[op]) : States.ILLEGAL;
                if (next != States.ILLEGAL) {
                    explore(model, next, done | 1 << op, visited);
                }
            }
        }

        @Override
        public String toString() {
            StringBuilder text = new StringBuilder(name);
            for (int op = 0; op < operations.count; op++) {
                text.append("\n  op ").append(op).append(" kind ").append(operations.kind[op]);
                text.append(" function ").append(operations.functionOf(op));
                text.append(' ').append(Arrays.toString(operations.argumentsOf(op)));
                text.append(" call ").append(operations.call[op]);
                text.append(operations.crashed(op) ? " crashed" : " return " + operations.ret[op]);
            }
            return text.append("\n  linearizable ").append(linearizable).append(", passes ").append(passed).toString();
        }
    }

    private interface Maker {
        States make(Operations operations);
    }

    /** A family of objects: the kinds of operations that a history may have. */
    private record Family(String name, int[] function, long[][] arguments, Maker states) {}

    private static Family family(String model, Object... kinds) {
        int[] function = new int[kinds.length / 2];
        long[][] arguments = new long[kinds.length / 2][];
        for (int kind = 0; kind < function.length; kind++) {
            function[kind] = (Integer) kinds[2 * kind];
            arguments[kind] = (long[]) kinds[2 * kind + 1];
        }
        String[] values = {"null", "1", "2", "3"};
        return new Family(
                model, function, arguments, ops -> Models.byName(model).states(ops, new long[0], values));
    }

    private static long[] args(long... arguments) {
        return arguments;
    }

    private static final Family REGISTER = family(
            "cas-register",
            Function.READ, args(0), Function.READ, args(1), Function.READ, args(2), Function.READ, args(3),
            Function.WRITE, args(1), Function.WRITE, args(2), Function.WRITE, args(3),
            Function.CAS, args(1, 2), Function.CAS, args(2, 3), Function.CAS, args(3, 1), Function.CAS, args(2, 2),
            Function.CAS_FAILED, args(1, 2), Function.CAS_FAILED, args(3, 2));
    private static final Family MUTEX = family("mutex", Function.ACQUIRE, args(), Function.RELEASE, args());
    private static final Family QUEUE = family(
            "fifo-queue",
            Function.ENQUEUE, args(1), Function.ENQUEUE, args(2),
            Function.DEQUEUE, args(1), Function.DEQUEUE, args(2), Function.DEQUEUE, args(0),
            Function.DEQUEUE, args(Function.UNKNOWN));
    private static final Family UNORDERED = family(
            "unordered-queue",
            Function.ENQUEUE, args(1), Function.ENQUEUE, args(2), Function.DEQUEUE, args(1), Function.DEQUEUE, args(2),
            Function.DEQUEUE, args(1, 7), Function.DEQUEUE, args(0), Function.DRAINED, args(7),
            Function.DEQUEUE, args(Function.UNKNOWN));
    private static final Family COUNTER = family(
            "counter",
            Function.ADD, args(1), Function.ADD, args(-1), Function.ADD, args(2),
            Function.READ, args(0), Function.READ, args(1), Function.READ, args(2), Function.READ, args(3));
    private static final Family SET = family(
            "set",
            Function.ADD, args(1, 0), Function.ADD, args(1, 1), Function.ADD, args(1, Function.UNKNOWN),
            Function.REMOVE, args(1, 0), Function.REMOVE, args(1, 1), Function.REMOVE, args(1, Function.UNKNOWN),
            Function.ADD, args(2, Function.UNKNOWN), Function.CONTAINS, args(1, 0), Function.CONTAINS, args(1, 1),
            Function.READ, args(), Function.READ, args(1), Function.READ, args(1, 2));

    /** Any object: a random table of transitions, where some kinds observe and others may be illegal. */
    private static Family automaton(Random random) {
        int states = 2 + random.nextInt(4);
        int kinds = 2 + random.nextInt(5);
        int[] function = new int[kinds];
        long[][] arguments = new long[kinds][];
        int[][] table = new int[states][kinds];
        double legal = 0.3 + 0.6 * random.nextDouble();
        for (int kind = 0; kind < kinds; kind++) {
            boolean observes = random.nextInt(3) == 0;
            function[kind] = observes ? Function.READ : Function.ENQUEUE;
            arguments[kind] = args(kind);
            for (int state = 0; state < states; state++) {
                boolean allowed = random.nextDouble() < legal;
                table[state][kind] = !allowed ? States.ILLEGAL : observes ? state : random.nextInt(states);
            }
        }
        return new Family("automaton " + Arrays.deepToString(table), function, arguments, ops -> new States() {
            @Override
            public int initial() {
                return 0;
            }

            @Override
            public int step(int state, int kind) {
                return table[state][kind];
            }

            @Override
            public String describe(int state) {
                return Integer.toString(state);
            }

            @Override
            public long bytes() {
                return 0;
            }
        });
    }

    /**
     * A random history: up to six clients at a time; {@code lawful}: ops take effect in some order at some point, so
     * that it is linearizable, else any kinds.
     */
    private static Case history(Random random, Family family, int most, boolean lawful) {
        int count = 1 + random.nextInt(most);
        int clients = 1 + random.nextInt(6);
        double crash = random.nextInt(4) * 0.25;
        int[] call = new int[count];
        int[] ret = new int[count];
        int[] kind = new int[count];
        Arrays.fill(ret, Operations.NEVER);
        Arrays.fill(kind, -1);
        int kinds = family.function().length;
        Operations all = new Operations(call, call, ret, kind, family.function(), family.arguments());
        States model = family.states().make(all);
        int state = model.initial();
        List<Integer> pending = new ArrayList<>();
        int position = 0;
        for (int called = 0; called < count || !pending.isEmpty(); ) {
            if (called < count && (pending.isEmpty() || pending.size() < clients && random.nextBoolean())) {
                call[called] = position++;
                pending.add(called++);
                continue;
            }
            int op = pending.get(random.nextInt(pending.size()));
            if (lawful && kind[op] < 0) {
                int wanted = random.nextInt(kinds);
                for (int i = 0; i < kinds && kind[op] < 0; i++) {
                    int next = model.step(state, (wanted + i) % kinds);
                    if (next != States.ILLEGAL) {
                        kind[op] = (wanted + i) % kinds;
                        state = next;
                    }
                }
            } else if (random.nextDouble() >= crash && kind[op] >= 0) {
                ret[op] = position++;
                pending.remove(Integer.valueOf(op));
                continue;
            }
            if (kind[op] < 0 || random.nextDouble() < crash) {
                pending.remove(Integer.valueOf(op));
                if (kind[op] < 0) {
                    kind[op] = random.nextInt(kinds);
                    ret[op] = lawful || random.nextDouble() < crash ? Operations.NEVER : position++;
                }
            }
        }
        int[] number = java.util.stream.IntStream.range(0, count).toArray();
        Operations operations = new Operations(number, call, ret, kind, family.function(), family.arguments());
        return new Case((lawful ? "lawful " : "any ") + family.name(), operations, family.states());
    }

    private static Search search(
            boolean depthFirst, Case it, States states, Budget budget, boolean keepOrders, long exactFirst) {
        return depthFirst
                ? new DepthFirst(it.operations, states, budget, keepOrders, exactFirst)
                : new BreadthFirst(it.operations, states, budget, keepOrders, exactFirst);
    }

    private static void check(
            Case it, boolean depthFirst, long slice, long bytes, boolean keepOrders, long exactFirst) {
        Budget budget = new Budget(bytes, Long.MAX_VALUE);
        States states = it.states.make(it.operations);
        Search search = search(depthFirst, it, states, budget, keepOrders, exactFirst);
        Search.Status status = search.run(0);
        for (int slices = 0; status == Search.Status.RUNNING; slices++) {
            demand(slices < 10_000_000, it, search, "does not end");
            status = search.run(slice);
        }
        demand(status == search.run(slice), it, search, "changes its mind");
        demand(status != Search.Status.GAVE_UP || bytes < PLENTY, it, search, "gave up");
        if (status == Search.Status.LINEARIZABLE) {
            demand(it.linearizable, it, search, "says linearizable");
            if (keepOrders) {
                demand(passes(it, search.order()) == it.byReturn.length, it, search, "gives an incomplete order");
            }
        }
        Search.Furthest[] ends = search.furthest(5);
        if (status == Search.Status.VIOLATION) {
            demand(!it.linearizable, it, search, "says violation");
            demand(ends.length > 0 && ends.length <= 5, it, search, "knows no end");
        }
        for (Search.Furthest end : ends) {
            boolean ordered = (depthFirst || keepOrders) && end.order().length > 0;
            int passed = ordered ? passes(it, end.order()) : it.passed;
            boolean there = !ordered || describe(it, end.order()).equals(states.describe(end.state()));
            demand(there, it, search, "ends in another state");
            demand(passed <= it.passed, it, search, "passes too many returns");
            if (status == Search.Status.VIOLATION && !ordered && exactFirst < PLENTY) {
                int stuck = Arrays.stream(it.byReturn).boxed().toList().indexOf(end.stuck());
                demand(stuck >= it.passed, it, search, "is stuck too early");
            } else if (status == Search.Status.VIOLATION) {
                demand(passed == it.passed, it, search, "did not get as far as one can");
                demand(end.stuck() == it.byReturn[passed], it, search, "is stuck elsewhere");
            }
        }
        search.close();
        demand(budget.takenBytes() == 0, it, search, "keeps " + budget.takenBytes() + " bytes");
    }

    /** How many returns this order, which must be lawful, passes. */
    private static int passes(Case it, int[] order) {
        States model = it.states.make(it.operations);
        int state = model.initial();
        boolean[] done = new boolean[it.operations.count];
        for (int op : order) {
            if (done[op]) {
                fail(it, "op " + op + " twice in " + Arrays.toString(order));
            }
            for (int other : it.byReturn) {
                if (!done[other] && it.operations.ret[other] < it.operations.call[op]) {
                    fail(it, "op " + other + " too late in " + Arrays.toString(order));
                }
            }
            done[op] = true;
            state = model.step(state, it.operations.kind[op]);
            if (state == States.ILLEGAL) {
                fail(it, "op " + op + " illegal in " + Arrays.toString(order));
            }
        }
        int passed = 0;
        while (passed < it.byReturn.length && done[it.byReturn[passed]]) {
            passed++;
        }
        return passed;
    }

    private static String describe(Case it, int[] order) {
        States model = it.states.make(it.operations);
        int state = model.initial();
        for (int op : order) {
            state = model.step(state, it.operations.kind[op]);
        }
        return model.describe(state);
    }

    private static void demand(boolean holds, Case it, Search search, String complaint) {
        if (!holds) {
            fail(it, search.name() + " " + complaint);
        }
    }

    private static void fail(Case it, String complaint) {
        System.err.println(complaint + ": " + it);
        System.exit(1);
    }

    public static void main(String[] arguments) {
        int histories = Integer.parseInt(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        int most = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 8;
        Random random = new Random(seed);
        Family[] families = {REGISTER, MUTEX, QUEUE, UNORDERED, COUNTER, SET};
        int linearizable = 0;
        int crashed = 0;
        for (int i = 0; i < histories; i++) {
            Family family = i % 2 == 0 ? automaton(random) : families[i / 2 % families.length];
            Case it = history(random, family, most, random.nextInt(3) == 0);
            linearizable += it.linearizable ? 1 : 0;
            crashed += it.byReturn.length < it.operations.count ? 1 : 0;
            for (boolean depthFirst : new boolean[] {true, false}) {
                check(it, depthFirst, i % 3 == 0 ? 1 : 10_000, PLENTY, i % 4 < 2, PLENTY);
                check(it, depthFirst, 10_000, PLENTY, i % 4 < 2, 1 + random.nextInt(20));
                if (i % 5 == 0) {
                    check(it, depthFirst, 3, 1L << 9 + random.nextInt(7), i % 2 == 0, 1 + random.nextInt(20));
                }
            }
        }
        System.out.printf(
                "%d histories agree, %d linearizable, %d with crashes%n", histories, linearizable, crashed);
    }
}
