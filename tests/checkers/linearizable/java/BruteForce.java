package stormproof;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import stormproof.model.Function;
import stormproof.model.Operations;

/**
 * Linearizability by its definition: try all orders of all subsets of the crashed operations. The models are written
 * here once more, on plain collections, so that nothing is shared with what is under test.
 */
final class BruteForce {
    private final String model;
    private final Operations operations;
    private final String[] values;
    private final int[] before; // by op, as bits: the ops that returned before it was called
    private int completed; // as bits

    private BruteForce(String model, Operations operations, String[] values) {
        this.model = model;
        this.operations = operations;
        this.values = values;
        before = new int[operations.count];
        for (int op = 0; op < operations.count; op++) {
            completed |= operations.crashed(op) ? 0 : 1 << op;
            for (int other = 0; other < operations.count; other++) {
                before[op] |= operations.ret[other] < operations.call[op] ? 1 << other : 0;
            }
        }
    }

    static boolean linearizable(String model, Operations operations, long[] init, String[] values) {
        return new BruteForce(model, operations, values).possible(0, initial(model, init, values));
    }

    /** Whether this order of ops is a linearization. */
    static boolean isLinearization(String model, Operations operations, long[] init, String[] values, int[] order) {
        BruteForce all = new BruteForce(model, operations, values);
        int placed = 0;
        Object state = initial(model, init, values);
        for (int op : order) {
            if ((placed >> op & 1) != 0 || (all.before[op] & all.completed & ~placed) != 0) {
                return false;
            }
            placed |= 1 << op;
            state = step(model, state, operations.functionOf(op), operations.argumentsOf(op), values);
            if (state == null) {
                return false;
            }
        }
        return (all.completed & ~placed) == 0;
    }

    private boolean possible(int placed, Object state) {
        if ((completed & ~placed) == 0) {
            return true;
        }
        for (int op = 0; op < operations.count; op++) {
            if ((placed >> op & 1) == 0 && (before[op] & completed & ~placed) == 0) {
                Object next = step(model, state, operations.functionOf(op), operations.argumentsOf(op), values);
                if (next != null && possible(placed | 1 << op, next)) {
                    return true;
                }
            }
        }
        return false;
    }

    static Object initial(String model, long[] init, String[] values) {
        List<Long> list = listed(init, 0);
        return switch (model) {
            case "register", "cas-register" -> init.length == 0 ? 0L : init[0];
            case "kv" -> init.length == 0 ? new Key("null", "null") : new Key(values[(int) init[0]], "null").started();
            case "multi-register" -> {
                Map<Long, Long> registers = new HashMap<>();
                for (int i = 0; i < init.length; i += 2) {
                    registers.put(init[i], init[i + 1]);
                }
                yield registers;
            }
            case "mutex" -> init.length > 0 && init[0] == 1;
            case "fenced-lock" -> init.length == 0 ? new Lock(null, null, null) : Lock.of(init[0], init[1]);
            case "set" -> new TreeSet<>(list);
            case "fifo-queue" -> list;
            case "unordered-queue" -> {
                Collections.sort(list);
                yield Set.of(list);
            }
            case "counter" -> init.length == 0 ? 0L : init[0];
            case "replica-info" -> init.length == 0 ? List.of(0L) : list;
            default -> throw new IllegalArgumentException(model);
        };
    }

    private record Lock(Long holder, Long last, Long token) {
        static Lock of(long holder, Long token) {
            return new Lock(holder < 0 ? null : holder, token, token);
        }
    }

    /** The state after an operation, null when it is illegal. */
    @SuppressWarnings("unchecked")
    static Object step(String model, Object state, int function, long[] arguments, String[] values) {
        return switch (model) {
            case "register", "cas-register" -> register((Long) state, function, arguments);
            case "multi-register" -> transaction((Map<Long, Long>) state, arguments);
            case "mutex" -> (function == Function.ACQUIRE) != (Boolean) state ? !((Boolean) state) : null;
            case "fenced-lock" -> lock((Lock) state, function, arguments);
            case "kv" -> map((Key) state, function, arguments, values);
            case "set" -> set((Set<Long>) state, function, arguments);
            case "fifo-queue" -> queue((List<Long>) state, function, arguments[0]);
            case "unordered-queue" -> unordered((Set<List<Long>>) state, function, arguments);
            case "counter" -> counter((Long) state, function, arguments[0]);
            case "replica-info" -> info((List<Long>) state, function, arguments);
            default -> throw new IllegalArgumentException(model);
        };
    }

    private static Long register(Long state, int function, long[] arguments) {
        return switch (function) {
            case Function.READ -> state == arguments[0] ? state : null;
            case Function.WRITE -> (Long) arguments[0];
            case Function.CAS -> state == arguments[0] ? (Long) arguments[1] : null;
            default -> state != arguments[0] ? state : null;
        };
    }

    private static Map<Long, Long> transaction(Map<Long, Long> state, long[] arguments) {
        Map<Long, Long> next = new HashMap<>(state);
        for (int i = 0; i < arguments.length; i += 3) {
            if (arguments[i] == Function.WRITE) {
                next.put(arguments[i + 1], arguments[i + 2]);
                continue;
            }
            boolean told = arguments[i + 2] != Function.UNKNOWN;
            if (told && next.getOrDefault(arguments[i + 1], 0L) != arguments[i + 2]) {
                return null;
            }
        }
        return next;
    }

    private static Lock lock(Lock state, int function, long[] arguments) {
        Long token = arguments[1] == Function.UNKNOWN ? null : (Long) arguments[1];
        if (function == Function.ACQUIRE) {
            if (state.holder != null || token != null && state.last != null && token <= state.last) {
                return null;
            }
            Long least = state.last == null ? null : (Long) (state.last + 1);
            return new Lock(arguments[0], token == null ? least : token, token);
        }
        boolean agree = token == null
                || (state.token == null ? state.last == null || token >= state.last : token.equals(state.token));
        Long last = token == null ? state.last : token;
        return state.holder != null && state.holder == arguments[0] && agree ? new Lock(null, last, null) : null;
    }

    /** What an absent key reads as is nil, or "" where the map starts with that. */
    private record Key(String text, String absent) {
        Key started() {
            return text.equals("\"\"") ? new Key(text, text) : this;
        }
    }

    private static Key map(Key state, int function, long[] arguments, String[] values) {
        String value = arguments.length == 0 ? "null" : values[(int) arguments[0]];
        value = value.equals("null") ? state.absent : value;
        String had = state.text.equals("null") ? "\"\"" : state.text;
        return switch (function) {
            case Function.READ -> state.text.equals(value) ? state : null;
            case Function.WRITE, Function.DELETE -> new Key(value, state.absent);
            default -> new Key(had.substring(0, had.length() - 1) + value.substring(1), state.absent);
        };
    }

    private static Set<Long> set(Set<Long> state, int function, long[] arguments) {
        if (function == Function.READ) {
            return state.equals(new HashSet<>(listed(arguments, 0))) ? state : null;
        }
        boolean there = state.contains(arguments[0]);
        boolean told = arguments[1] != Function.UNKNOWN;
        if (function == Function.CONTAINS) {
            return there == (arguments[1] == 1) ? state : null;
        }
        if (told && (arguments[1] == 1) != (there == (function == Function.REMOVE))) {
            return null;
        }
        Set<Long> next = new TreeSet<>(state);
        if (function == Function.ADD) {
            next.add(arguments[0]);
        } else {
            next.remove(arguments[0]);
        }
        return next;
    }

    private static List<Long> queue(List<Long> state, int function, long value) {
        List<Long> next = new ArrayList<>(state);
        if (function == Function.ENQUEUE) {
            next.add(value);
            return next;
        }
        if (state.isEmpty()) {
            return value == 0 || value == Function.UNKNOWN ? state : null;
        }
        boolean right = value == Function.UNKNOWN || value != 0 && state.get(0) == value;
        next.remove(0);
        return right ? next : null;
    }

    /** All that may be: contents in order, before them -1 - d of each drain d that is over; one for each choice. */
    private static Set<List<Long>> unordered(Set<List<Long>> worlds, int function, long[] arguments) {
        Set<List<Long>> found = new HashSet<>();
        for (List<Long> world : worlds) {
            boolean empty = world.stream().allMatch(number -> number < 0);
            boolean over = function == Function.DEQUEUE && arguments.length > 1 && world.contains(-1 - arguments[1]);
            List<Long> next = new ArrayList<>(world);
            if (function == Function.ENQUEUE) {
                next.add(arguments[0]);
            } else if (function == Function.DRAINED) {
                next.remove(-1 - arguments[0]);
                next.add(-1 - arguments[0]);
            }
            Collections.sort(next);
            boolean sawEmpty = function == Function.DRAINED || arguments[0] == 0;
            if (function == Function.ENQUEUE || empty && (sawEmpty || arguments[0] == Function.UNKNOWN)) {
                found.add(next);
            } else if (!sawEmpty && !over) {
                for (Long element : world) {
                    if (element > 0 && (arguments[0] == Function.UNKNOWN || arguments[0] == element)) {
                        List<Long> left = new ArrayList<>(world);
                        left.remove(element);
                        found.add(left);
                    }
                }
            }
        }
        return found.isEmpty() ? null : found;
    }

    private static Long counter(Long state, int function, long number) {
        return function == Function.ADD ? (Long) (state + number) : state == number ? state : null;
    }

    private static List<Long> info(List<Long> state, int function, long[] arguments) {
        return switch (function) {
            case Function.READ -> state.equals(listed(arguments, 0)) ? state : null;
            case Function.WRITE -> listed(arguments, 0);
            case Function.CAS_FAILED -> state.get(0) != arguments[0] ? state : null;
            default -> {
                List<Long> next = listed(arguments, 1);
                Collections.replaceAll(next, Function.UNKNOWN, arguments[0] + 1);
                yield state.get(0) == arguments[0] && next.get(0) > arguments[0] ? next : null;
            }
        };
    }

    private static List<Long> listed(long[] all, int from) {
        List<Long> list = new ArrayList<>();
        for (int i = from; i < all.length; i++) {
            list.add(all[i]);
        }
        return list;
    }
}
