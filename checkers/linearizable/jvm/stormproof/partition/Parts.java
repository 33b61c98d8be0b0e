package stormproof.partition;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.model.SubHistory;
import stormproof.util.LongInterner;

/** Divides an object into parts that are independent ({@link Model#part}), and puts orders of all parts together. */
public final class Parts {
    /** The operations of each part; the object itself, undivided, when one operation concerns the whole. */
    public static List<Operations> of(Operations whole, Model model) {
        long[] part = new long[whole.count];
        for (int op = 0; op < whole.count; op++) {
            part[op] = model.part(whole.functionOf(op), whole.argumentsOf(op), whole.crashed(op));
            if (part[op] == Model.WHOLE) {
                return List.of(whole);
            }
        }
        if (whole.count == 0) {
            return List.of(whole);
        }
        LongInterner places = new LongInterner();
        int[] place = new int[whole.count];
        int[] end = new int[whole.count + 1];
        for (int op = 0; op < whole.count; op++) {
            place[op] = places.place(part[op]);
            end[place[op] + 1]++;
        }
        for (int i = 1; i <= places.size(); i++) {
            end[i] += end[i - 1];
        }
        int[] next = Arrays.copyOf(end, places.size());
        int[] members = new int[whole.count];
        for (int op = 0; op < whole.count; op++) {
            members[next[place[op]]++] = op;
        }
        List<Operations> parts = new ArrayList<>(places.size());
        for (int i = 0; i < places.size(); i++) {
            parts.add(SubHistory.of(whole, Arrays.copyOfRange(members, end[i], end[i + 1]), whole.ret));
        }
        return parts;
    }

    /**
     * One order of operation numbers from an order of each part. In the order of its part, each operation takes effect
     * as early as it can: at its own call, or when the one before it did. That is never after its return, so the
     * orders of all parts fit together.
     */
    public static int[] merged(List<Operations> parts, List<int[]> orders) {
        int count = 0;
        for (int[] order : orders) {
            count += order.length;
        }
        int[] numbers = new int[count];
        long[] effects = new long[count];
        int next = 0;
        for (int part = 0; part < orders.size(); part++) {
            Operations operations = parts.get(part);
            int effect = 0;
            for (int op : orders.get(part)) {
                effect = Math.max(effect, operations.call[op]);
                numbers[next] = operations.number[op];
                effects[next] = (long) effect << 32 | next;
                next++;
            }
        }
        Arrays.sort(effects);
        int[] merged = new int[count];
        for (int i = 0; i < count; i++) {
            merged[i] = numbers[(int) effects[i]];
        }
        return merged;
    }

    private Parts() {}
}
