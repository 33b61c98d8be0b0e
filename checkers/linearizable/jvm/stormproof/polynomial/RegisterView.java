package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Function;
import stormproof.model.KvModel;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.model.ReplicaInfoModel;
import stormproof.util.LongInterner;
import stormproof.util.SequenceInterner;

/**
 * Operations that each read, write or compare-and-set one value, whatever the model calls them. Values are dense
 * numbers, the first state has 0.
 */
final class RegisterView {
    static final int NONE = -1;
    private static final int MANY = -2;

    final Operations operations;
    /** How many values there are. */
    int values;
    /** By op: the value that it found. */
    final int[] sees;
    /** By op: the value that it left, another one than it found. */
    final int[] writes;
    /** By op: the value that it did not find. */
    final int[] refuses;

    private RegisterView(Operations operations) {
        this.operations = operations;
        sees = new int[operations.count];
        writes = new int[operations.count];
        refuses = new int[operations.count];
        Arrays.fill(sees, NONE);
        Arrays.fill(writes, NONE);
        Arrays.fill(refuses, NONE);
    }

    /** Makes a view, or null where the operations are not of this sort. */
    interface Maker {
        RegisterView view(Operations operations, long[] init, String[] values);
    }

    /** A register or cas-register. */
    static RegisterView ofRegister(Operations operations, long[] init, String[] values) {
        RegisterView view = new RegisterView(operations);
        LongInterner places = new LongInterner();
        places.place(init.length == 0 ? Function.NIL : init[0]);
        for (int op = 0; op < operations.count; op++) {
            long[] arguments = operations.argumentsOf(op);
            switch (operations.functionOf(op)) {
                case Function.READ -> view.sees[op] = places.place(arguments[0]);
                case Function.WRITE -> view.writes[op] = places.place(arguments[0]);
                case Function.CAS -> view.compareAndSet(op, places.place(arguments[0]), places.place(arguments[1]));
                case Function.CAS_FAILED -> view.refuses[op] = places.place(arguments[0]);
                default -> throw Models.noSuch(operations.functionOf(op), "a register");
            }
        }
        view.values = places.size();
        return view;
    }

    /** A key of a map, if nothing was appended to it. */
    static RegisterView ofKey(Operations operations, long[] init, String[] values) {
        RegisterView view = new RegisterView(operations);
        LongInterner places = new LongInterner();
        boolean absentIsEmpty = KvModel.absentIsEmpty(init, values);
        places.place(init.length == 0 ? Function.NIL : init[0]);
        for (int op = 0; op < operations.count; op++) {
            long value = operations.functionOf(op) == Function.DELETE ? Function.NIL : operations.argumentsOf(op)[0];
            int place = places.place(value == Function.NIL && absentIsEmpty ? init[0] : value);
            switch (operations.functionOf(op)) {
                case Function.READ -> view.sees[op] = place;
                case Function.WRITE, Function.DELETE -> view.writes[op] = place;
                case Function.APPEND -> {
                    return null;
                }
                default -> throw Models.noSuch(operations.functionOf(op), "a map");
            }
        }
        view.values = places.size();
        return view;
    }

    /**
     * A replica-info whose states can be told by their epochs as far as a compare-and-set asks for one: the value is
     * the epoch with the members.
     */
    static RegisterView ofReplicaInfo(Operations operations, long[] init, String[] values) {
        RegisterView view = new RegisterView(operations);
        SequenceInterner contents = new SequenceInterner();
        LongInterner epochs = new LongInterner();
        int[] only = new int[operations.count + 1]; // by epoch: the content that somebody may have set, NONE, MANY
        Arrays.fill(only, NONE);
        long[] beginning = init.length == 0 ? new long[1] : init;
        only[epochs.place(beginning[0])] = contents.number(beginning, beginning.length);
        for (int op = 0; op < operations.count; op++) {
            long[] content = ReplicaInfoModel.target(operations.functionOf(op), operations.argumentsOf(op));
            if (content == null) {
                continue;
            }
            int number = contents.number(content, content.length);
            if (operations.functionOf(op) == Function.READ) {
                view.sees[op] = number;
                continue;
            }
            if (operations.functionOf(op) == Function.CAS && content[0] <= operations.argumentsOf(op)[0]) {
                return null;
            }
            view.writes[op] = number;
            int epoch = epochs.place(content[0]);
            only[epoch] = only[epoch] == NONE || only[epoch] == number ? number : MANY;
        }
        int nobodys = contents.size();
        view.values = nobodys + 1;
        for (int op = 0; op < operations.count; op++) {
            boolean failed = operations.functionOf(op) == Function.CAS_FAILED;
            if (failed || operations.functionOf(op) == Function.CAS) {
                int epoch = epochs.find(operations.argumentsOf(op)[0]);
                int found = epoch == LongInterner.ABSENT ? NONE : only[epoch];
                if (found == MANY) {
                    return null;
                }
                (failed ? view.refuses : view.sees)[op] = found == NONE ? nobodys : found;
            }
        }
        return view;
    }

    private void compareAndSet(int op, int expected, int value) {
        sees[op] = expected;
        writes[op] = expected == value ? NONE : value;
    }
}
