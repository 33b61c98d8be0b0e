package stormproof.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import stormproof.io.Json;
import stormproof.model.Function;
import stormproof.model.History;

/** The operations on one key, gathered from rows; used again for the next key. */
final class KeyRows {
    /** The columns: key; process * FUNCTIONS + function; call; ret, or NEVER; value; expected, where there are any. */
    static final int KEY = 0;
    static final int FUNCTIONS = 64;
    static final long NEVER = -1;
    private static final int WHAT = 1;
    private static final int CALL = 2;
    private static final int RET = 3;
    private static final int VALUE = 4;
    private static final int EXPECTED = 5;
    private static final int FEW = 32; // values that are compared one by one
    private static final String NIL = "null";
    private static final String[] NO_KEYS = {};

    private final String model;
    private final boolean calculates;
    private final Object[] init;

    private int count;
    private int[] process = new int[32];
    private byte[] function = new byte[32];
    private long[] called = new long[32]; // 2 * time; a call at the time of a return comes before it
    private long[] returned = new long[32]; // 2 * time + 1; -1: never
    private int[] start = new int[33];
    private long[] arguments = new long[64];
    private int places;
    private Object[] values = new Object[FEW];
    private final Map<Object, Integer> placed = new HashMap<>(); // of the values after the first few

    /** {@code init}: arguments of the first state, longs and texts as the values are. */
    KeyRows(String model, Object[] init) {
        this.model = model;
        this.calculates = model.equals("counter") || model.equals("mutex");
        this.init = init;
        clear();
    }

    void clear() {
        count = 0;
        places = 0;
        placed.clear();
        values[places++] = NIL;
        start[0] = 0;
    }

    /** One operation; a read of an unknown value restricts nothing and is left out. */
    void add(Row row) {
        long what = row.getLong(WHAT);
        int f = (int) Math.floorMod(what, (long) FUNCTIONS);
        long ret = row.getLong(RET);
        boolean crashed = ret == NEVER;
        if (Function.observes(f) && (crashed || f == Function.READ && row.isNullAt(VALUE))) {
            return;
        }
        grow();
        int end = start[count];
        switch (f) {
            case Function.READ, Function.WRITE, Function.APPEND, Function.ENQUEUE, Function.ADD ->
                arguments[end++] = argument(row, VALUE);
            case Function.DEQUEUE -> arguments[end++] = crashed ? Function.UNKNOWN : argument(row, VALUE);
            case Function.CAS, Function.CAS_FAILED -> {
                arguments[end++] = argument(row, EXPECTED);
                arguments[end++] = argument(row, VALUE);
            }
            case Function.DELETE, Function.ACQUIRE, Function.RELEASE -> {}
            default -> throw new IllegalArgumentException("rows can't hold the function " + f);
        }
        process[count] = (int) Math.floorDiv(what, (long) FUNCTIONS);
        function[count] = (byte) f;
        called[count] = 2 * row.getLong(CALL);
        returned[count] = crashed ? NEVER : 2 * ret + 1;
        if (called[count] < 0 || !crashed && returned[count] < called[count]) {
            throw new IllegalArgumentException("a call at " + row.get(CALL) + " that returned at " + ret);
        }
        start[++count] = end;
    }

    private void grow() {
        if (count + 1 == process.length) {
            process = Arrays.copyOf(process, 2 * count + 2);
            function = Arrays.copyOf(function, 2 * count + 2);
            called = Arrays.copyOf(called, 2 * count + 2);
            returned = Arrays.copyOf(returned, 2 * count + 2);
            start = Arrays.copyOf(start, 2 * count + 3);
            arguments = Arrays.copyOf(arguments, 4 * count + 4);
        }
    }

    private long argument(Row row, int column) {
        if (row.isNullAt(column)) {
            return Function.NIL;
        }
        return argument(row.get(column));
    }

    /** A value's number, or the number itself where the model calculates with it. */
    private long argument(Object value) {
        if (calculates) {
            return value instanceof Long number ? number : Long.parseLong(value.toString());
        }
        return place(value);
    }

    /** The number of a value: a whole number, or a JSON text. */
    private int place(Object value) {
        for (int i = 1; i < Math.min(places, FEW); i++) {
            if (values[i].equals(value)) {
                return i;
            }
        }
        if (value.equals(NIL)) {
            return 0;
        }
        Integer known = places > FEW ? placed.get(value) : null;
        if (known != null) {
            return known;
        }
        if (places == values.length) {
            values = Arrays.copyOf(values, 2 * places);
        }
        if (places >= FEW) {
            placed.put(value, places);
        }
        values[places] = value;
        return places++;
    }

    /** The values as JSON texts. */
    private String[] texts() {
        String[] all = new String[places];
        for (int i = 0; i < places; i++) {
            all[i] = values[i].toString();
        }
        return all;
    }

    /** What was gathered, in the order of the calls; times become places among the events. */
    History history(String id) {
        long[] events = new long[2 * count];
        int size = 0;
        for (int op = 0; op < count; op++) {
            events[size++] = called[op];
            if (returned[op] >= 0) {
                events[size++] = returned[op];
            }
        }
        Arrays.sort(events, 0, size);
        boolean[] taken = new boolean[size];
        int[] call = new int[count];
        int[] ret = new int[count];
        for (int op = 0; op < count; op++) {
            call[op] = take(events, size, taken, called[op]);
            ret[op] = returned[op] < 0 ? -1 : take(events, size, taken, returned[op]);
        }
        int[] key = new int[count];
        Arrays.fill(key, -1);
        long[] first = Arrays.stream(init).mapToLong(this::argument).toArray();
        return new History(
                id,
                model,
                first,
                texts(),
                NO_KEYS,
                Arrays.copyOf(process, count),
                key,
                Arrays.copyOf(function, count),
                call,
                ret,
                Arrays.copyOf(start, count + 1),
                Arrays.copyOf(arguments, start[count]));
    }

    /** The place of one event that is not taken yet among those that are equal to it. */
    private static int take(long[] events, int size, boolean[] taken, long event) {
        int place = Arrays.binarySearch(events, 0, size, event);
        while (place > 0 && events[place - 1] == event) {
            place--;
        }
        while (taken[place]) {
            place++;
        }
        taken[place] = true;
        return place;
    }

    /** A history for the driver, which explains it: its columns. */
    static Json write(History history, Json json) {
        json.beginObject().name("values").beginArray();
        for (String value : history.values()) {
            json.value(value);
        }
        json.endArray().name("process").value(history.process());
        json.name("f").beginArray();
        for (byte f : history.function()) {
            json.value(f);
        }
        json.endArray().name("call").value(history.call()).name("ret").value(history.ret());
        json.name("start").value(history.start()).name("arguments").beginArray();
        for (long argument : history.arguments()) {
            json.value(argument);
        }
        return json.endArray().endObject();
    }
}
