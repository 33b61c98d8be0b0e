package stormproof;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** What was found out about one history, and its JSON form (see {@link Checker#check}). */
record Findings(History history, List<Contest> contests, Witness witness, double milliseconds, long peakBytes) {
    private static final double MIB = 1 << 20;

    String toJson(boolean orders) {
        Json json = new Json().beginObject();
        json.name("id").value(history.id()).name("valid");
        boolean valid = false;
        if (contests.stream().anyMatch(Contest::violated)) {
            json.value(false);
        } else if (contests.stream().allMatch(Contest::decided)) {
            json.value(true);
            valid = true;
        } else {
            json.value("unknown");
        }
        json.name("ms").thousandths(milliseconds);
        json.name("configs").value(contests.stream().mapToLong(Contest::configurations).sum());
        json.name("peak_mib").thousandths(peakBytes / MIB);
        undecided(json.name("undecided"));
        violated(json.name("violated"));
        witness(json.name("witness"));
        orders(json.name("orders"), valid && orders);
        decidedBy(json.name("decided_by"));
        return json.endObject().toString();
    }

    /** One object a key without a verdict; a key of several parts has one when all of them have. */
    private void undecided(Json json) {
        json.beginArray();
        for (List<Contest> parts : byKey()) {
            if (parts.stream().anyMatch(Contest::violated)) {
                continue;
            }
            Contest open = parts.stream().filter(part -> !part.decided()).findFirst().orElse(null);
            if (open != null) {
                json.beginObject().name("key").value(open.partition.key());
                json.name("reason").value(open.reason().text);
                json.name("placed").value(parts.stream().mapToInt(Findings::placed).sum());
                json.name("of").value(parts.stream().mapToInt(part -> part.partition.completed()).sum());
                json.endObject();
            }
        }
        json.endArray();
    }

    private static int placed(Contest contest) {
        return contest.decided() ? contest.partition.completed() : contest.placed();
    }

    private void violated(Json json) {
        json.beginArray();
        for (List<Contest> parts : byKey()) {
            if (parts.stream().anyMatch(Contest::violated)) {
                json.value(parts.get(0).partition.key());
            }
        }
        json.endArray();
    }

    private void witness(Json json) {
        if (witness == null) {
            json.value((String) null);
            return;
        }
        json.beginObject().name("key").value(witness.key()).name("reason").value(witness.reason());
        json.name("prefix").value(witness.prefix()).name("blocked").value(witness.blocked());
        json.name("dead_ends").beginArray();
        for (Witness.DeadEnd end : witness.deadEnds()) {
            json.beginObject().name("order").value(end.order());
            json.name("state").value(end.state());
            json.name("illegal").value(end.illegal()).endObject();
        }
        json.endArray().name("minimal").value(witness.minimal()).endObject();
    }

    private void orders(Json json, boolean wanted) {
        json.beginArray();
        for (List<Contest> parts : wanted ? byKey() : List.<List<Contest>>of()) {
            json.beginObject().name("key").value(parts.get(0).partition.key());
            json.name("order").value(merged(parts)).endObject();
        }
        json.endArray();
    }

    /**
     * One order of all parts of an object. In the order of its part, each operation takes effect as early as it can: at
     * its own call, or when the one before it did. That is never after its return, so the orders of all parts fit together.
     */
    private static int[] merged(List<Contest> parts) {
        int count = parts.stream().mapToInt(part -> part.decision().order().length).sum();
        int[] numbers = new int[count];
        long[] effects = new long[count];
        int next = 0;
        for (Contest part : parts) {
            Operations operations = part.partition.operations();
            int effect = 0;
            for (int op : part.decision().order()) {
                effect = Math.max(effect, operations.call[op]);
                numbers[next] = operations.number[op];
                effects[next] = (long) effect << 32 | next;
                next++;
            }
        }
        if (parts.size() > 1) {
            Arrays.sort(effects);
        }
        int[] order = new int[count];
        for (int i = 0; i < count; i++) {
            order[i] = numbers[(int) effects[i]];
        }
        return order;
    }

    private void decidedBy(Json json) {
        Map<String, Integer> objects = new TreeMap<>();
        for (Contest contest : contests) {
            if (contest.decided()) {
                objects.merge(contest.decidedBy(), 1, Integer::sum);
            }
        }
        json.beginObject();
        objects.forEach((name, count) -> json.name(name).value(count));
        json.endObject();
    }

    /** The parts of one key stand together. */
    private List<List<Contest>> byKey() {
        List<List<Contest>> keys = new ArrayList<>();
        for (Contest contest : contests) {
            List<Contest> last = keys.isEmpty() ? null : keys.get(keys.size() - 1);
            if (last == null || !Objects.equals(last.get(0).partition.key(), contest.partition.key())) {
                last = new ArrayList<>(1);
                keys.add(last);
            }
            last.add(contest);
        }
        return keys;
    }
}
