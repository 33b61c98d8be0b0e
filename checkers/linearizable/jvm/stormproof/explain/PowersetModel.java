package stormproof.explain;

import java.util.Arrays;
import stormproof.model.Function;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.model.Transitions;
import stormproof.util.SequenceInterner;

/**
 * A partition some of whose operations are optional: each of these takes effect within its interval, or not at all. Its
 * states are sets of states of the model, all those that the choices made so far can have led to (the construction that
 * makes automata deterministic), so any search can work on it.
 */
final class PowersetModel extends Transitions {
    private static final int MOST = 24; // states in a set

    /** Ops of this sub-history; functions and arguments mean nothing here. */
    final Operations operations;

    private final Operations all;
    private final States base;
    private final int[] opOf; // ops of the whole by ops of this sub-history
    private final int[] baseKind; // by kind
    private final boolean[] optional; // by kind
    private final SequenceInterner sets = new SequenceInterner();
    private long[] scratch = new long[4]; // twice as long as members
    private long[] members = new long[2];
    private boolean tooMany;

    /**
     * @param kept which ops are not optional; crashed ones are optional by themselves
     * @param until an event: ops called at it or later are left out, ops that return later have crashed
     * @param crashes whether ops that never return count, or are left out
     * @param base the model's states, of all kinds of operations
     */
    static PowersetModel of(Operations all, boolean[] kept, int until, boolean crashes, States base) {
        int[] op = new int[all.count];
        int count = 0;
        for (int i = 0; i < all.count && all.call[i] < until; i++) {
            if (kept[i] || ((crashes || !all.crashed(i)) && !Function.observes(all.functionOf(i)))) {
                op[count++] = i;
            }
        }
        int[] ret = new int[count];
        int[] kind = new int[count];
        int[] baseKind = new int[2 * all.kinds];
        int[] newKind = new int[2 * all.kinds]; // + 1; by kind of the whole, then the same, optional
        int kinds = 0;
        for (int i = 0; i < count; i++) {
            boolean crashed = all.ret[op[i]] >= until;
            ret[i] = crashed ? Operations.NEVER : all.ret[op[i]];
            int old = all.kind[op[i]] + (crashed || kept[op[i]] ? 0 : all.kinds);
            if (newKind[old] == 0) {
                baseKind[kinds] = old;
                newKind[old] = ++kinds;
            }
            kind[i] = newKind[old] - 1;
        }
        return new PowersetModel(all, base, Arrays.copyOf(op, count), ret, kind, Arrays.copyOf(baseKind, kinds));
    }

    private PowersetModel(Operations all, States base, int[] op, int[] ret, int[] kind, int[] kindOfWhole) {
        super(kindOfWhole.length);
        this.all = all;
        this.base = base;
        this.opOf = op;
        int kinds = kindOfWhole.length;
        baseKind = new int[kinds];
        optional = new boolean[kinds];
        for (int i = 0; i < kinds; i++) {
            optional[i] = kindOfWhole[i] >= all.kinds;
            baseKind[i] = kindOfWhole[i] % all.kinds;
        }
        int[] number = new int[op.length];
        int[] call = new int[op.length];
        for (int i = 0; i < op.length; i++) {
            number[i] = all.number[op[i]];
            call[i] = all.call[op[i]];
        }
        // Searches take advantage of what functions are known for. On sets of states nothing of that holds.
        int[] function = new int[kinds];
        Arrays.fill(function, Function.OPAQUE);
        operations = new Operations(number, call, ret, kind, function, new long[kinds][0]);
        scratch[0] = base.initial();
        sets.number(scratch, 1);
    }

    /** Whether sets grew too large: then a violation says nothing. */
    boolean tooMany() {
        return tooMany;
    }

    @Override
    public int initial() {
        return 0;
    }

    @Override
    protected int compute(int state, int kind) {
        int size = sets.length(state);
        if (members.length < size) {
            members = new long[2 * size];
            scratch = new long[4 * size];
        }
        sets.copy(state, members);
        int count = 0;
        for (int i = 0; i < size; i++) {
            int next = base.step((int) members[i], baseKind[kind]);
            if (next != ILLEGAL) {
                scratch[count++] = next;
            }
            if (optional[kind]) {
                scratch[count++] = members[i];
            }
        }
        Arrays.sort(scratch, 0, count);
        int distinct = 0;
        for (int i = 0; i < count; i++) {
            if (distinct == 0 || scratch[i] != scratch[distinct - 1]) {
                scratch[distinct++] = scratch[i];
            }
        }
        if (distinct > MOST) {
            tooMany = true;
            return ILLEGAL;
        }
        return distinct == 0 ? ILLEGAL : sets.number(scratch, distinct);
    }

    /**
     * The ops of the whole that took effect in an order of ops of this sub-history; as few optional ones as comes
     * easily.
     */
    int[] effective(int[] order) {
        int[] sequence = new int[order.length + 1];
        for (int i = 0; i < order.length; i++) {
            sequence[i + 1] = step(sequence[i], operations.kind[order[i]]);
        }
        int[] took = new int[order.length];
        int count = 0;
        long state = sets.at(sequence[order.length], 0);
        for (int i = order.length - 1; i >= 0; i--) {
            int kind = operations.kind[order[i]];
            if (!(optional[kind] && contains(sequence[i], state))) {
                took[count++] = opOf[order[i]];
                state = origin(sequence[i], kind, state);
            }
        }
        return Arrays.copyOf(took, count);
    }

    private boolean contains(int set, long state) {
        for (int i = 0; i < sets.length(set); i++) {
            if (sets.at(set, i) == state) {
                return true;
            }
        }
        return false;
    }

    private long origin(int set, int kind, long state) {
        for (int i = 0; i < sets.length(set); i++) {
            if (base.step((int) sets.at(set, i), baseKind[kind]) == state) {
                return sets.at(set, i);
            }
        }
        throw new IllegalStateException("no state leads to " + base.describe((int) state));
    }

    @Override
    public String describe(int state) {
        return sets.length(state) + " states";
    }

    @Override
    protected long contentBytes() {
        return sets.bytes();
    }
}
