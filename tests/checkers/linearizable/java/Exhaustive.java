package stormproof;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stormproof.model.Operations;

/**
 * All histories, up to renaming, of so many operations over so many values: every interleaving of calls and returns,
 * every operation completed or crashed. {@code Exhaustive OPERATIONS VALUES SUBJECT [MODEL...]}.
 */
final class Exhaustive {
    static final String[] MODELS = {
        "register", "cas-register", "multi-register", "mutex", "fenced-lock", "kv", "set", "fifo-queue",
        "unordered-queue", "counter", "replica-info"
    };

    /** Where operations are called and return. */
    record Shape(int[] call, int[] ret) {}

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        int values = Integer.parseInt(arguments[1]);
        List<Subject> subjects = new ArrayList<>();
        for (String name : arguments[2].split(",")) {
            Class<?> subject = Class.forName("stormproof.Subject$By" + name);
            subjects.add((Subject) subject.getDeclaredConstructor().newInstance());
        }
        String[] models = arguments.length > 3 ? Arrays.copyOfRange(arguments, 3, arguments.length) : MODELS;
        List<Shape> shapes = shapes(count);
        for (String model : models) {
            long start = System.nanoTime();
            long[] told = run(new Alphabet(model, values), shapes, subjects);
            System.out.printf(
                    "%s: %d histories of %d operations, %d linearizable, %.1f s%n",
                    model, told[0], count, told[1], (System.nanoTime() - start) / 1e9);
        }
        subjects.forEach(subject -> System.out.println(subject.finish()));
    }

    private static long[] run(Alphabet alphabet, List<Shape> shapes, List<Subject> subjects) {
        int count = shapes.get(0).call.length;
        String[] values = alphabet.texts();
        long[] told = new long[2];
        int[] kinds = new int[count];
        do {
            if (!alphabet.canonical(kinds)) {
                continue;
            }
            for (Shape shape : shapes) {
                if (fits(alphabet, kinds, shape)) {
                    Operations operations = alphabet.operations(kinds, shape.call, shape.ret);
                    boolean truth = BruteForce.linearizable(alphabet.model, operations, alphabet.init, values);
                    told[0]++;
                    told[1] += truth ? 1 : 0;
                    Subject.Case one = new Subject.Case(alphabet.model, operations, alphabet.init, values, truth);
                    subjects.forEach(subject -> subject.judge(one));
                }
            }
        } while (next(kinds, alphabet.letters.size()));
        return told;
    }

    private static boolean fits(Alphabet alphabet, int[] kinds, Shape shape) {
        for (int op = 0; op < kinds.length; op++) {
            Alphabet.Letter letter = alphabet.letters.get(kinds[op]);
            if (!(shape.ret[op] == Operations.NEVER ? letter.crashes() : letter.completes())) {
                return false;
            }
        }
        return true;
    }

    private static boolean next(int[] kinds, int letters) {
        int at = kinds.length - 1;
        while (at >= 0 && ++kinds[at] == letters) {
            kinds[at--] = 0;
        }
        return at >= 0;
    }

    /** All that differ in more than the order of neighbouring returns. Calls are in the order of the ops. */
    static List<Shape> shapes(int count) {
        List<Shape> all = new ArrayList<>();
        for (int crashed = 0; crashed < 1 << count; crashed++) {
            int[] ret = new int[count];
            Arrays.fill(ret, Operations.NEVER);
            extend(all, new int[count], ret, crashed, 0, 0, -1);
        }
        return all;
    }

    private static void extend(
            List<Shape> all, int[] call, int[] ret, int crashed, int called, int event, int lastReturn) {
        if (event == 2 * call.length - Integer.bitCount(crashed)) {
            all.add(new Shape(call.clone(), ret.clone()));
            return;
        }
        if (called < call.length) {
            call[called] = event;
            extend(all, call, ret, crashed, called + 1, event + 1, -1);
        }
        for (int op = lastReturn + 1; op < called; op++) {
            if ((crashed >> op & 1) == 0 && ret[op] == Operations.NEVER) {
                ret[op] = event;
                extend(all, call, ret, crashed, called, event + 1, op);
                ret[op] = Operations.NEVER;
            }
        }
    }
}
