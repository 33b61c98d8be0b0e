package stormproof.model;

import stormproof.util.SequenceInterner;

/**
 * A lock that gives its holder a fencing token, larger than every token before.
 *
 * <p>ACQUIRE [process, token] needs a free lock; an unknown token counts as the smallest possible one, the last plus
 * one, which leaves the most room for later ones, until a release tells what it was. RELEASE [process, token] needs that
 * process to hold it, and the tokens to be equal where both are known.
 */
final class FencedLockModel implements Model {
    private static final long NOBODY = -1;
    /** Below every real token, with room for more unknown ones than a history can hold. */
    private static final long NO_TOKEN = Long.MIN_VALUE / 2;

    @Override
    public String name() {
        return "fenced-lock";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Holders(operations, init);
    }

    /** A content is (holder, last token, whether the holder's token is known). */
    private static final class Holders extends Transitions {
        private final SequenceInterner contents = new SequenceInterner();
        private final Operations operations;
        private final long[] scratch = new long[3];

        Holders(Operations operations, long[] init) {
            super(operations.kinds);
            this.operations = operations;
            number(init.length > 0 ? init[0] : NOBODY, init.length > 1 ? init[1] : NO_TOKEN, 1);
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        protected int compute(int state, int kind) {
            long holder = contents.at(state, 0);
            long last = contents.at(state, 1);
            boolean known = contents.at(state, 2) == 1;
            long process = operations.arguments[kind][0];
            long token = operations.arguments[kind][1];
            switch (operations.function[kind]) {
                case Function.ACQUIRE:
                    if (holder != NOBODY || token != Function.UNKNOWN && token <= last) {
                        return ILLEGAL;
                    }
                    return token == Function.UNKNOWN ? number(process, last + 1, 0) : number(process, token, 1);
                case Function.RELEASE:
                    boolean fits = token == Function.UNKNOWN || (known ? token == last : token >= last);
                    return holder == process && fits
                            ? number(NOBODY, token == Function.UNKNOWN ? last : token, 1)
                            : ILLEGAL;
                default:
                    throw Models.noSuch(operations.function[kind], "a fenced lock");
            }
        }

        private int number(long holder, long last, long known) {
            scratch[0] = holder;
            scratch[1] = last;
            scratch[2] = known;
            return contents.number(scratch, 3);
        }

        @Override
        public String describe(int state) {
            long last = contents.at(state, 1);
            String token = last < NO_TOKEN / 2 ? "no known token" : "token " + last;
            if (contents.at(state, 0) == NOBODY) {
                return "free, last " + token;
            }
            String bound = contents.at(state, 2) == 1 ? "" : "at least ";
            return "held by process " + contents.at(state, 0) + ", " + bound + token;
        }

        @Override
        protected long contentBytes() {
            return contents.bytes();
        }
    }
}
