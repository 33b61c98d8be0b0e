package stormproof;

import java.util.StringJoiner;

/**
 * What a controller knows of a broker group (RIP-44): the epoch of its SyncStateSet and the members, under compare-and-set.
 *
 * <p>READ [epoch, members...]; CAS [expected epoch, new epoch, members...] needs the epoch to be the expected one and the
 * new one to be larger (unknown: expected + 1); CAS_FAILED [expected epoch, ...] saw another epoch; WRITE [epoch,
 * members...] sets both.
 */
final class ReplicaInfoModel implements Model {
    @Override
    public String name() {
        return "replica-info";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Infos(operations, init, values);
    }

    /** Every state is the first one or the target of some operation, so that all are known from the start. */
    private static final class Infos implements States {
        private final Contents contents = new Contents();
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
                target[kind] = switch (function[kind]) {
                    case Function.READ, Function.WRITE -> contents.number(arguments, arguments.length);
                    case Function.CAS -> compareAndSet(arguments);
                    case Function.CAS_FAILED -> ILLEGAL;
                    default -> throw Models.noSuch(function[kind], "replica-info");
                };
            }
        }

        private int compareAndSet(long[] arguments) {
            long epoch = arguments[1] == Function.UNKNOWN ? arguments[0] + 1 : arguments[1];
            if (epoch <= arguments[0]) {
                return ILLEGAL;
            }
            long[] content = new long[arguments.length - 1];
            System.arraycopy(arguments, 1, content, 0, content.length);
            content[0] = epoch;
            return contents.number(content, content.length);
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
