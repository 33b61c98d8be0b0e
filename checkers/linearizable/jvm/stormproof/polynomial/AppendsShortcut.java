package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.KvModel;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.util.Budget;

/**
 * A key of a map whose texts can be told apart inside of what was read: each get shows by whom its value was put and
 * which appends followed, in order. Decided by {@link Blocks}, in time linear in the texts but for sorting.
 *
 * <p>It applies when what the gets show can be cut into put and appended texts in one way only, and each text shown was
 * put or appended once. A put that was shown begins a block, each append shown comes directly after what was shown
 * before it. A put that no get shows is a block of its own. So is an append that no get shows: it can only stand at the
 * end of a block, behind all that is known of it and before the next put; that is, between blocks. Crashed operations
 * that no get shows are left out: what stands between such a put and the next can as well stand without it, as no get
 * is there.
 *
 * <p>An absent key counts as the beginning of a block without text; the first state and the deletes make it absent.
 */
final class AppendsShortcut extends Polynomial {
    private static final int NONE = -1;
    private static final int MANY = -2;

    AppendsShortcut(Model model) {
        super("appends", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        for (int kind = 0; kind < operations.kinds; kind++) {
            int function = operations.function[kind];
            long value = function == Function.DELETE ? Function.NIL : operations.arguments[kind][0];
            String text = values[(int) value];
            boolean fits = function == Function.READ
                    ? KvModel.isString(text) || value == Function.NIL
                    : function == Function.DELETE || KvModel.isString(text) && !text.equals(KvModel.EMPTY);
            if (!fits) {
                return null;
            }
        }
        String first = values[init.length == 0 ? 0 : (int) init[0]];
        return KvModel.isString(first) || first.equals(values[0]) ? new Attempt(operations, first, values).decide()
                : null;
    }

    /** One key's columns. A <em>segment</em> is the op that wrote it, or {@code blocks.initial}. */
    private static final class Attempt {
        private final Operations operations;
        private final String[] values;
        private final Blocks blocks;
        private final Fragments fragments = new Fragments();
        private final int[] length; // by fragment
        private final int[] putter; // by fragment: segment, NONE, MANY
        private final int[] appender;
        private int absent = NONE; // what made the key absent: segment, NONE, MANY
        private boolean absentIsEmpty;
        private int fragmentCount;
        private final boolean[] shown; // by op
        private final int[] shownBy; // by op: the first get that did
        private final Parsed[] longest; // by the segment at the beginning of a block
        private boolean ambiguous;

        /** The longest text of a block that was cut so far: where each segment ends. */
        private static final class Parsed {
            private String text = "";
            private int[] ends = new int[8];
            private int[] segments = new int[8];
            private int count;

            void add(int end, int segment) {
                if (count == ends.length) {
                    ends = Arrays.copyOf(ends, 2 * count);
                    segments = Arrays.copyOf(segments, 2 * count);
                }
                ends[count] = end;
                segments[count++] = segment;
            }
        }

        Attempt(Operations operations, String first, String[] values) {
            this.operations = operations;
            this.values = values;
            blocks = new Blocks(operations);
            int count = operations.count;
            length = new int[count + 1];
            putter = new int[count + 1];
            appender = new int[count + 1];
            shown = new boolean[count + 1];
            shownBy = new int[count + 1];
            longest = new Parsed[count + 1];
            absentIsEmpty = first.equals(KvModel.EMPTY);
            if (absentIsEmpty || first.equals(values[0])) {
                absent = blocks.initial;
            } else {
                name(first, blocks.initial, putter);
            }
        }

        Decision decide() {
            for (int op = 0; op < operations.count; op++) {
                switch (operations.functionOf(op)) {
                    case Function.WRITE -> name(text(op), op, putter);
                    case Function.APPEND -> name(text(op), op, appender);
                    case Function.DELETE -> absent = absent == NONE ? op : MANY;
                    default -> {}
                }
            }
            for (int op = 0; op < operations.count; op++) {
                if (operations.functionOf(op) == Function.READ && !operations.crashed(op)) {
                    Decision wrong = read(op);
                    if (wrong != null || ambiguous) {
                        return wrong;
                    }
                }
            }
            for (int op = 0; op < operations.count; op++) {
                boolean writes = operations.functionOf(op) != Function.READ;
                boolean follows = shown[op] && operations.functionOf(op) == Function.APPEND;
                if (writes && !follows && (shown[op] || !operations.crashed(op))) {
                    blocks.start(op);
                }
            }
            return blocks.decide();
        }

        private String text(int op) {
            return values[(int) operations.argumentsOf(op)[0]];
        }

        private void name(String json, int segment, int[] writer) {
            String text = KvModel.inner(json);
            if (fragments.add(text, fragmentCount)) {
                length[fragmentCount] = text.length();
                putter[fragmentCount] = NONE;
                appender[fragmentCount++] = NONE;
            }
            int fragment = fragments.number(text);
            writer[fragment] = writer[fragment] == NONE ? segment : MANY;
        }

        /** Name all that a get shows; a violation, or null. */
        private Decision read(int get) {
            String json = text(get);
            if (json.equals(KvModel.EMPTY) && !absentIsEmpty) {
                return unwritten(get);
            }
            String text = json.equals(values[0]) ? "" : KvModel.inner(json);
            int begin = text.isEmpty() ? absent : beginning(text);
            if (ambiguous |= begin == MANY) {
                return null;
            }
            if (begin == NONE) {
                return unwritten(get);
            }
            show(begin, get);
            if (longest[begin] == null) {
                longest[begin] = new Parsed();
                longest[begin].add(begin == absent ? 0 : length[fragments.at(text, 0)], begin);
            }
            return follow(get, text, longest[begin]);
        }

        /** The segment that the block of this text begins with. */
        private int beginning(String text) {
            int fragment = fragments.at(text, 0);
            if (fragment < 0) {
                return fragment == Fragments.SEVERAL ? MANY : NONE;
            }
            if (putter[fragment] != NONE && appender[fragment] != NONE) {
                return MANY;
            }
            return putter[fragment] != NONE ? putter[fragment] : absent;
        }

        private Decision follow(int get, String text, Parsed parsed) {
            if (text.length() <= parsed.text.length() && parsed.text.startsWith(text)) {
                int at = Arrays.binarySearch(parsed.ends, 0, parsed.count, text.length());
                if (at >= 0) {
                    blocks.observe(get, parsed.segments[at]);
                    return null;
                }
            }
            boolean longer = text.startsWith(parsed.text);
            int known = longer ? parsed.count - 1 : 0;
            int segment = parsed.segments[known];
            int place = parsed.ends[known];
            while (place < text.length()) {
                int fragment = fragments.at(text, place);
                int op = fragment == Fragments.SEVERAL ? MANY : fragment == Fragments.NONE ? NONE : appender[fragment];
                if (ambiguous |= op == MANY) {
                    return null;
                }
                if (op == NONE) {
                    return unwritten(get);
                }
                if (!blocks.follow(op, segment)) {
                    return contradiction(get, shown[op] ? shownBy[op] : shownBy[blocks.next(segment)]);
                }
                show(op, get);
                segment = op;
                place += length[fragment];
                if (longer) {
                    parsed.add(place, segment);
                }
            }
            blocks.observe(get, segment);
            parsed.text = longer ? text : parsed.text;
            return null;
        }

        private void show(int segment, int get) {
            if (!shown[segment]) {
                shown[segment] = true;
                shownBy[segment] = get;
            }
        }

        private Decision unwritten(int get) {
            return Decision.violation("operation " + operations.number[get]
                    + " shows what nobody can have written", get);
        }

        private Decision contradiction(int get, int other) {
            boolean[] in = new boolean[operations.count];
            in[get] = in[other] = true;
            for (int shows : new int[] {get, other}) {
                String text = KvModel.inner(text(shows));
                int begin = beginning(text);
                int place = 0;
                if (begin >= 0 && begin != absent) {
                    place = length[fragments.at(text, 0)];
                }
                if (begin >= 0 && begin != blocks.initial) {
                    in[begin] = true;
                }
                for (int fragment = fragments.at(text, place); place < text.length() && fragment >= 0; ) {
                    if (appender[fragment] >= 0) {
                        in[appender[fragment]] = true;
                    }
                    place += length[fragment];
                    fragment = fragments.at(text, place);
                }
            }
            return Decision.violation(
                    get == other
                            ? "operation " + operations.number[get] + " shows an append twice"
                            : "operations " + operations.number[other] + " and " + operations.number[get]
                                    + " show appends in two ways that cannot both be",
                    Blocks.positions(in));
        }
    }
}
