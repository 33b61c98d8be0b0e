package stormproof;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.model.States;

/**
 * States and shortcuts against brute force on random histories of each model: {@code ModelsTest SEED HISTORIES
 * [MODEL...]}. Fails, too,
 * when a shortcut has become so careful that it decides nothing.
 */
final class ModelsTest {
    private static final int MOST_OPERATIONS = 8;
    private static final int VALUES = 4;

    public static void main(String[] arguments) {
        long seed = Long.parseLong(arguments[0]);
        int histories = Integer.parseInt(arguments[1]);
        Subject.ByStates states = new Subject.ByStates();
        Subject.ByShortcuts shortcuts = new Subject.ByShortcuts();
        String[] models = arguments.length > 2 ? Arrays.copyOfRange(arguments, 2, arguments.length) : Exhaustive.MODELS;
        for (String model : models) {
            Random random = new Random(seed);
            for (int i = 0; i < histories; i++) {
                Alphabet alphabet = new Alphabet(model, 2 + random.nextInt(VALUES - 1));
                alphabet = random.nextBoolean() ? alphabet.plain() : alphabet;
                alphabet.init = firstState(alphabet, random);
                Operations operations = new Randomly(alphabet, random).next(MOST_OPERATIONS);
                String[] values = alphabet.texts();
                boolean truth = BruteForce.linearizable(model, operations, alphabet.init, values);
                Subject.Case one = new Subject.Case(model, operations, alphabet.init, values, truth);
                states.judge(one);
                shortcuts.judge(one);
            }
        }
        System.out.println(shortcuts.finish());
        demand(shortcuts.counts, histories, models.length);
        describes();
        queues(new Random(seed));
    }

    private static long[] firstState(Alphabet alphabet, Random random) {
        if (random.nextInt(3) > 0) {
            return new long[0];
        }
        return switch (alphabet.model) {
            case "register", "cas-register" -> new long[] {1};
            case "multi-register" -> new long[] {alphabet.values.size() - 2, 1};
            case "mutex" -> new long[] {1};
            case "fenced-lock" -> new long[] {random.nextInt(3) - 1, 1};
            case "kv" -> new long[] {random.nextBoolean() ? 1 : alphabet.values.size() - 1};
            case "set" -> new long[] {2};
            case "fifo-queue", "unordered-queue" -> new long[] {1, random.nextBoolean() ? 1 : 2};
            case "counter" -> new long[] {2};
            default -> new long[] {1, 1};
        };
    }

    /** Each shortcut decides its share of these histories, of both sorts but for those that know violations only. */
    private static void demand(Map<String, long[]> counts, int histories, int models) {
        counts.forEach((name, count) -> {
            boolean violationsOnly = name.endsWith("stale-value") || name.endsWith("each-register");
            if (count[1] < histories / 50 || !violationsOnly && count[0] < histories / 50) {
                throw new AssertionError(name + " decides too little: " + Arrays.toString(count));
            }
        });
        check(counts.size() >= models, "only " + counts.keySet());
    }

    private static void describes() {
        check(described("register", new long[0]).equals("null"), "register");
        check(described("kv", new long[] {1}).equals("\"a\""), "kv");
        check(described("set", new long[] {1, 2}).equals("{\"a\", \"b\"}"), "set");
        check(described("fifo-queue", new long[] {2, 1}).equals("[\"b\", \"a\"]"), "queue");
        check(described("unordered-queue", new long[] {2, 1}).equals("{\"a\", \"b\"}"), "unordered queue");
        check(described("mutex", new long[0]).equals("free"), "mutex");
        check(described("counter", new long[] {7}).equals("7"), "counter");
        check(described("replica-info", new long[] {3, 1}).equals("epoch 3 {\"a\"}"), "replica-info");
        check(described("fenced-lock", new long[] {4, 9}).equals("held by process 4, token 9"), "fenced-lock");
        try {
            Models.byName("stack");
            throw new AssertionError("a model that there is not");
        } catch (IllegalArgumentException e) {
            check(e.getMessage().contains("fenced-lock"), e.getMessage());
        }
    }

    private static String described(String model, long[] init) {
        Alphabet alphabet = new Alphabet(model, 2);
        Operations none = alphabet.operations(new int[0], new int[0], new int[0]);
        States states = Models.byName(model).states(none, init, alphabet.texts());
        return states.describe(states.initial());
    }

    /** Equal queues have equal numbers, whatever way led there, and different ones have different numbers. */
    private static void queues(Random random) {
        int values = 3;
        Alphabet alphabet = new Alphabet("fifo-queue", values);
        int[] kinds = new int[2 * values];
        for (int i = 0; i < kinds.length; i++) {
            kinds[i] = i;
        }
        Operations operations = alphabet.operations(kinds, new int[kinds.length], new int[kinds.length]);
        States states = Models.byName("fifo-queue").states(operations, new long[0], alphabet.texts());
        java.util.HashMap<List<Long>, Integer> known = new java.util.HashMap<>();
        java.util.ArrayDeque<Long> queue = new java.util.ArrayDeque<>();
        int state = states.initial();
        for (int i = 0; i < 50_000; i++) {
            boolean add = random.nextInt(10) > queue.size();
            boolean guess = add || queue.isEmpty() || random.nextInt(4) == 0;
            int kind = 2 * (guess ? random.nextInt(values) : queue.peekFirst().intValue() - 1) + (add ? 0 : 1);
            long value = operations.arguments[kind][0];
            int next = states.step(state, kind);
            boolean legal = add || !queue.isEmpty() && queue.peekFirst() == value;
            check(legal == (next != States.ILLEGAL), "step " + i);
            if (legal) {
                state = next;
                if (add) {
                    queue.addLast(value);
                } else {
                    queue.removeFirst();
                }
                Integer before = known.putIfAbsent(List.copyOf(queue), state);
                check(before == null || before == state, "two numbers for " + queue);
            }
        }
        check(new java.util.HashSet<>(known.values()).size() == known.size(), "one number for two queues");
    }

    private static void check(boolean right, String what) {
        if (!right) {
            throw new AssertionError(what);
        }
    }
}
