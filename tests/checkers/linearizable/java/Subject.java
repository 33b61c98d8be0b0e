package stormproof;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import stormproof.io.Packed;
import stormproof.model.Decision;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.polynomial.Shortcut;
import stormproof.polynomial.Shortcuts;
import stormproof.util.Budget;

/** Something that judges histories, compared with the truth. */
interface Subject {
    /** A history with what brute force says of it. */
    record Case(String model, Operations operations, long[] init, String[] values, boolean linearizable) {
        Decision by(Shortcut shortcut) {
            return shortcut.decide(operations, init, values, new Budget(1L << 30, System.nanoTime() + (1L << 50)));
        }

        AssertionError wrong(String what) {
            StringJoiner all = new StringJoiner("\n  ", what + ": " + model + " " + Arrays.toString(init) + ", truly "
                    + (linearizable ? "linearizable" : "not linearizable") + "\n  ", "");
            for (int op = 0; op < operations.count; op++) {
                all.add(operations.call[op] + ".." + (operations.crashed(op) ? "never" : operations.ret[op])
                        + " function "
                        + operations.functionOf(op) + " " + Arrays.toString(operations.argumentsOf(op)));
            }
            return new AssertionError(all.toString());
        }
    }

    void judge(Case one);

    /** Judge what was put off, and tell what was counted. */
    default String finish() {
        return "";
    }

    /** The states of the models, by the simplest search over them. */
    final class ByStates implements Subject {
        @Override
        public void judge(Case one) {
            States states = Models.byName(one.model).states(one.operations, one.init, one.values);
            if (possible(one.operations, states, 0, states.initial()) != one.linearizable) {
                throw one.wrong("the states say otherwise");
            }
        }

        private static boolean possible(Operations operations, States states, int placed, int state) {
            boolean done = true;
            for (int op = 0; op < operations.count; op++) {
                done &= operations.crashed(op) || (placed >> op & 1) != 0;
            }
            for (int op = 0; !done && op < operations.count; op++) {
                if ((placed >> op & 1) == 0 && minimal(operations, placed, op)) {
                    int next = states.step(state, operations.kind[op]);
                    done = next != States.ILLEGAL && possible(operations, states, placed | 1 << op, next);
                }
            }
            return done;
        }

        private static boolean minimal(Operations operations, int placed, int op) {
            for (int other = 0; other < operations.count; other++) {
                if ((placed >> other & 1) == 0 && operations.ret[other] < operations.call[op]) {
                    return false;
                }
            }
            return true;
        }
    }

    /** Every shortcut of the model, alone; counts what each decides. */
    final class ByShortcuts implements Subject {
        /** By model and shortcut: valid, violations, no answer. */
        final Map<String, long[]> counts = new LinkedHashMap<>();

        @Override
        public void judge(Case one) {
            for (Shortcut shortcut : Shortcuts.of(Models.byName(one.model))) {
                Decision decision = one.by(shortcut);
                long[] count = counts.computeIfAbsent(one.model + " " + shortcut.name(), name -> new long[5]);
                if (decision == null) {
                    count[one.linearizable ? 3 : 4]++;
                    continue;
                }
                count[decision.valid() ? 0 : 1]++;
                count[2] += decision.culprits().length > 0 ? 1 : 0;
                if (decision.valid() != one.linearizable) {
                    throw one.wrong(shortcut.name() + " says otherwise (" + decision.reason() + ")");
                }
                check(one, shortcut, decision);
            }
        }

        private static void check(Case one, Shortcut shortcut, Decision decision) {
            if (decision.valid()) {
                if (!BruteForce.isLinearization(one.model, one.operations, one.init, one.values, decision.order())) {
                    throw one.wrong(shortcut.name() + " gave " + Arrays.toString(decision.order()));
                }
                return;
            }
            int[] culprits = decision.culprits();
            if (decision.reason().isEmpty()) {
                throw one.wrong(shortcut.name() + " gave no reason");
            }
            if (culprits.length > 0
                    && BruteForce.linearizable(one.model, only(one.operations, culprits), one.init, one.values)) {
                throw one.wrong(shortcut.name() + " blames " + Arrays.toString(culprits) + " (" + decision.reason()
                        + ")");
            }
        }

        static Operations only(Operations all, int[] some) {
            int[] ops = some.clone();
            Arrays.sort(ops);
            return new Operations(
                    Arrays.stream(ops).map(op -> all.number[op]).toArray(),
                    Arrays.stream(ops).map(op -> all.call[op]).toArray(),
                    Arrays.stream(ops).map(op -> all.ret[op]).toArray(),
                    Arrays.stream(ops).map(op -> all.kind[op]).toArray(),
                    all.function,
                    all.arguments);
        }

        @Override
        public String finish() {
            StringJoiner all = new StringJoiner("\n");
            counts.forEach((name, count) -> all.add(
                    name + ": " + count[0] + " linearizable, " + count[1] + " not (" + count[2]
                            + " with culprits), no answer for "
                            + count[3] + " and " + count[4]));
            return all.toString();
        }
    }

    /** The whole checker, through its front door, many histories at a time. */
    final class ByChecker implements Subject {
        private static final int AT_ONCE = 50_000;
        private static final int MOST_BYTES = 256;

        private final List<Case> open = new ArrayList<>();

        @Override
        public void judge(Case one) {
            open.add(one);
            if (open.size() == AT_ONCE) {
                flush();
            }
        }

        @Override
        public String finish() {
            flush();
            return "";
        }

        private void flush() {
            int bytes = 12;
            for (Case one : open) {
                bytes += size(one);
            }
            ByteBuffer batch = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
            batch.put("SPLH".getBytes(StandardCharsets.US_ASCII)).putInt(Packed.FORMAT).putInt(open.size());
            open.forEach(one -> write(one, batch));
            String answers = Checker.check(Arrays.copyOf(batch.array(), batch.position()), 60, 256L << 20, 1, true,
                    false);
            Matcher found = VALID.matcher(answers);
            for (Case one : open) {
                if (!found.find() || !found.group(1).equals(Boolean.toString(one.linearizable))) {
                    throw one.wrong("the checker says otherwise");
                }
            }
            open.clear();
        }

        private static final Pattern VALID = Pattern.compile("\"valid\": ?(true|false|\"unknown\")");

        private static int size(Case one) {
            int bytes = MOST_BYTES + 8 * one.init.length + 64 * one.operations.count;
            for (String value : one.values) {
                bytes += 4 + 4 * value.length();
            }
            for (int op = 0; op < one.operations.count; op++) {
                bytes += 8 * one.operations.argumentsOf(op).length;
            }
            return bytes;
        }

        private static void write(Case one, ByteBuffer batch) {
            int begin = batch.position();
            batch.putInt(0);
            text(batch, "x");
            text(batch, one.model);
            batch.putInt(one.init.length);
            Arrays.stream(one.init).forEach(batch::putLong);
            batch.putInt(one.values.length);
            Arrays.stream(one.values).forEach(value -> text(batch, value));
            batch.putInt(0);
            Operations operations = one.operations;
            batch.putInt(operations.count);
            IntStream ops = IntStream.range(0, operations.count);
            ops.forEach(batch::putInt); // processes
            Arrays.stream(new int[operations.count]).forEach(op -> batch.putInt(-1)); // keys
            for (int op = 0; op < operations.count; op++) {
                batch.put((byte) operations.functionOf(op));
            }
            Arrays.stream(operations.call).forEach(batch::putInt);
            Arrays.stream(operations.ret).forEach(ret -> batch.putInt(ret == Operations.NEVER ? -1 : ret));
            int start = 0;
            batch.putInt(start);
            for (int op = 0; op < operations.count; op++) {
                start += operations.argumentsOf(op).length;
                batch.putInt(start);
            }
            batch.putInt(start);
            for (int op = 0; op < operations.count; op++) {
                Arrays.stream(operations.argumentsOf(op)).forEach(batch::putLong);
            }
            batch.putInt(begin, batch.position() - begin - 4);
        }

        private static void text(ByteBuffer batch, String text) {
            byte[] content = text.getBytes(StandardCharsets.UTF_8);
            batch.putInt(content.length).put(content);
        }
    }
}
