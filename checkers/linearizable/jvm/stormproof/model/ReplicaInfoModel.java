package stormproof.model;

import java.util.Arrays;
import java.util.StringJoiner;
import stormproof.util.SequenceInterner;

/**
 * What a controller knows of a broker group (RIP-44): the epoch of its SyncStateSet and the members, under
 * compare-and-set.
 *
 * <p>READ [epoch, members...]; CAS [expected epoch, new epoch, members...] needs the epoch to be the expected one and
 * the new one to be larger (unknown: expected + 1); CAS_FAILED [expected epoch, ...] saw another epoch; WRITE [epoch,
 * members...] sets both.
 */
public final class ReplicaInfoModel implements Model {
    @Override
    public String name() {
        return "replica-info";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Infos(operations, init, values);
    }

    /** The epoch and the members that such an operation finds (READ) or leaves; null for a failed compare-and-set. */
    public static long[] target(int function, long[] arguments) {
        switch (function) {
            case Function.READ, Function.WRITE:
                return arguments;
            case Function.CAS:
                long[] content = Arrays.copyOfRange(arguments, 1, arguments.length);
                content[0] = content[0] == Function.UNKNOWN ? arguments[0] + 1 : content[0];
                return content;
            case Function.CAS_FAILED:
                return null;
            default:
                throw Models.noSuch(function, "replica-info");
        }
    }

    /** Every state is the first one or the target of some operation, so that all are known from the start. */
    private static final class Infos implements States {
        private final SequenceInterner contents = new SequenceInterner();
        private final String[] values;
        private final int[] function;
        private final long[] expected; // of CAS and CAS_FAILED: the epoch
        private final int[] target; // of READ, WRITE and CAS; ILLEGAL: never legal

        Infos(Operations operations, long[] init, String[] values) {
            this.values = values;
            contents.number(init.length == 0 ? new long[1] : init, Math.max(1, init.length));
            function = operations.function;
            expected = new long[operations.kinds];
            target = new int[operations.kinds];
            for (int kind = 0; kind < operations.kinds; kind++) {
                long[] arguments = operations.arguments[kind];
                expected[kind] = arguments[0];
                long[] content = target(function[kind], arguments);
                boolean legal = content != null && (function[kind] != Function.CAS || content[0] > expected[kind]);
                target[kind] = legal ? contents.number(content, content.length) : ILLEGAL;
            }
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        public int step(int state, int kind) {
            return switch (function[kind]) {
                case Function.READ -> state == target[kind] ? state : ILLEGAL;
                case Function.WRITE -> target[kind];
                case Function.CAS -> contents.at(state, 0) == expected[kind] ? target[kind] : ILLEGAL;
                default -> contents.at(state, 0) != expected[kind] ? state : ILLEGAL;
            };
        }

        @Override
        public String describe(int state) {
            StringJoiner members = new StringJoiner(", ", "epoch " + contents.at(state, 0) + " {", "}");
            for (int i = 1; i < contents.length(state); i++) {
                members.add(Models.text(values, contents.at(state, i)));
            }
            return members.toString();
        }

        @Override
        public long bytes() {
            return contents.bytes() + 12L * target.length;
        }
    }
}
