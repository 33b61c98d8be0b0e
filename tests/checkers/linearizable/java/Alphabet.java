package stormproof;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stormproof.model.Function;
import stormproof.model.Operations;

/** The operations of a model over a few values, from which test histories are made. */
final class Alphabet {
    /** One operation; {@code completes} or {@code crashes}: in which of the two ways it may end. */
    record Letter(int function, long[] arguments, boolean completes, boolean crashes) {
        boolean writes() {
            return function == Function.WRITE || function == Function.ENQUEUE || function == Function.APPEND
                    || function == Function.CAS || function == Function.ADD || function == Function.ACQUIRE;
        }
    }

    final String model;
    final List<Letter> letters = new ArrayList<>();
    final List<String> values = new ArrayList<>(List.of("null"));
    long[] init = {};
    /** Whether the values 1 to n can be exchanged for each other. */
    boolean renames = true;
    private final int count;

    Alphabet(String model, int count) {
        this.model = model;
        this.count = count;
        for (int i = 1; i <= count; i++) {
            values.add("\"" + (char) ('a' + i - 1) + "\"");
        }
        switch (model) {
            case "register" -> register(false);
            case "cas-register" -> register(true);
            case "multi-register" -> transactions();
            case "mutex" -> mutex();
            case "fenced-lock" -> lock();
            case "kv" -> map();
            case "set" -> set();
            case "fifo-queue" -> queue();
            case "unordered-queue" -> {
                queue();
                renames = false;
                completes(Function.DEQUEUE, 1, 7);
                completes(Function.DRAINED, 7);
            }
            case "counter" -> counter();
            case "replica-info" -> info();
            default -> throw new IllegalArgumentException(model);
        }
    }

    String[] texts() {
        return values.toArray(String[]::new);
    }

    /** Give all values numbers that ascend by their first use; false if they were used in another order. */
    boolean canonical(int[] kinds) {
        long seen = 0;
        for (int kind : renames ? kinds : new int[0]) {
            Letter letter = letters.get(kind);
            long[] arguments = letter.arguments;
            boolean triples = model.equals("multi-register");
            for (int i = triples ? 2 : 0; i < arguments.length; i += triples ? 3 : 1) {
                boolean flag = model.equals("set") && letter.function != Function.READ && i == 1;
                if (!flag && arguments[i] > seen + 1) {
                    return false;
                }
                seen = flag ? seen : Math.max(seen, arguments[i]);
            }
        }
        return true;
    }

    /** Leave only the operations that the algorithms for sets that grow and for counters of equal steps take. */
    Alphabet plain() {
        letters.removeIf(letter -> switch (letter.function) {
            case Function.ADD -> model.equals("set") && letter.arguments[1] != Function.UNKNOWN
                    || model.equals("counter") && letter.arguments[0] != 1;
            case Function.REMOVE, Function.CONTAINS -> true;
            default -> false;
        });
        return this;
    }

    private void both(int function, long... arguments) {
        letters.add(new Letter(function, arguments, true, true));
    }

    private void completes(int function, long... arguments) {
        letters.add(new Letter(function, arguments, true, false));
    }

    private void crashes(int function, long... arguments) {
        letters.add(new Letter(function, arguments, false, true));
    }

    private void register(boolean compareAndSet) {
        for (int i = 0; i <= count; i++) {
            completes(Function.READ, i);
            if (i > 0) {
                both(Function.WRITE, i);
            }
            for (int n = 1; compareAndSet && n <= count; n++) {
                both(Function.CAS, i, n);
            }
            if (compareAndSet) {
                completes(Function.CAS_FAILED, i, i);
            }
        }
    }

    private void transactions() {
        values.add("\"x\"");
        values.add("\"y\"");
        long x = values.size() - 2;
        long y = x + 1;
        for (long v = 0; v <= count; v++) {
            completes(Function.TXN, Function.READ, x, v);
            both(Function.TXN, Function.WRITE, y, v);
            completes(Function.TXN, Function.READ, x, v, Function.READ, y, 1);
            both(Function.TXN, Function.READ, y, Function.UNKNOWN, Function.WRITE, x, v);
        }
        both(Function.TXN, Function.WRITE, x, 1, Function.WRITE, y, 1);
        both(Function.TXN, Function.READ, x, 1, Function.WRITE, x, 0, Function.READ, x, 0);
    }

    private void mutex() {
        both(Function.ACQUIRE);
        both(Function.RELEASE);
    }

    private void lock() {
        renames = false;
        for (int process = 0; process < 2; process++) {
            for (int token = 1; token <= count; token++) {
                completes(Function.ACQUIRE, process, token);
                both(Function.RELEASE, process, token);
            }
            both(Function.ACQUIRE, process, Function.UNKNOWN);
            both(Function.RELEASE, process, Function.UNKNOWN);
        }
    }

    private void map() {
        renames = false;
        completes(Function.READ, 0);
        both(Function.DELETE);
        for (int i = 1; i <= count; i++) {
            both(Function.WRITE, i);
            both(Function.APPEND, i);
            completes(Function.READ, i);
            for (int j = 1; j <= count; j++) {
                values.add("\"" + (char) ('a' + i - 1) + (char) ('a' + j - 1) + "\"");
                completes(Function.READ, values.size() - 1);
            }
        }
        values.add("\"\"");
        completes(Function.READ, values.size() - 1);
    }

    private void set() {
        for (int e = 1; e <= count; e++) {
            both(Function.ADD, e, Function.UNKNOWN);
            both(Function.REMOVE, e, Function.UNKNOWN);
            for (int changed = 0; changed < 2; changed++) {
                completes(Function.ADD, e, changed);
                completes(Function.REMOVE, e, changed);
                completes(Function.CONTAINS, e, changed);
            }
        }
        for (int members = 0; members < 1 << count; members++) {
            int[] all = new int[count];
            int size = 0;
            for (int e = 1; e <= count; e++) {
                if ((members >> e - 1 & 1) != 0) {
                    all[size++] = e;
                }
            }
            completes(Function.READ, Arrays.stream(all, 0, size).asLongStream().toArray());
        }
    }

    private void queue() {
        for (int v = 1; v <= count; v++) {
            both(Function.ENQUEUE, v);
            completes(Function.DEQUEUE, v);
        }
        completes(Function.DEQUEUE, 0);
        crashes(Function.DEQUEUE, Function.UNKNOWN);
    }

    private void counter() {
        renames = false;
        for (int i = -1; i <= count; i++) {
            completes(Function.READ, i);
            if (i != 0) {
                both(Function.ADD, i);
            }
        }
        completes(Function.READ, count + 1);
    }

    private void info() {
        renames = false;
        completes(Function.READ, 0);
        completes(Function.READ, 1, 1);
        completes(Function.READ, 2, 2);
        both(Function.CAS, 0, 1, 1);
        both(Function.CAS, 1, 2, 2);
        both(Function.CAS, 0, Function.UNKNOWN, 2);
        completes(Function.READ, 1, 2);
        both(Function.WRITE, 1, 1);
        completes(Function.CAS_FAILED, 0);
        completes(Function.CAS_FAILED, 1);
        if (count > 2) {
            both(Function.CAS, 1, 3, 1, 3);
            both(Function.CAS, 2, 3, 2);
            completes(Function.READ, 3, 1, 3);
            completes(Function.READ, 3, 2);
        }
    }

    /** The operations with these letters and events, as the checkers take them. */
    Operations operations(int[] kinds, int[] call, int[] ret) {
        int count = kinds.length;
        int[] kindOf = new int[letters.size()];
        Arrays.fill(kindOf, -1);
        int[] number = new int[count];
        int[] kind = new int[count];
        List<Letter> used = new ArrayList<>();
        for (int op = 0; op < count; op++) {
            if (kindOf[kinds[op]] < 0) {
                kindOf[kinds[op]] = used.size();
                used.add(letters.get(kinds[op]));
            }
            number[op] = op;
            kind[op] = kindOf[kinds[op]];
        }
        int[] function = used.stream().mapToInt(Letter::function).toArray();
        long[][] arguments = used.stream().map(Letter::arguments).toArray(long[][]::new);
        return new Operations(number, call, ret, kind, function, arguments);
    }
}
