package stormproof;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import stormproof.explain.Witness;
import stormproof.io.Findings;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.model.SubHistory;
import stormproof.partition.Partition;
import stormproof.partition.Partitions;

/**
 * The checker as a whole: partitions, budgets, witnesses, orders, JSON. Exits with 1 and a message when one is wrong.
 */
public final class CheckerTest {
    private static final long MEMORY = 256L << 20;

    private static Findings judge(Script script) {
        return new Checker(20, MEMORY, 1, true, true).judge(script.history());
    }

    private static void expect(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    private static void expectEqual(Object expected, Object actual, String what) {
        expect(expected.equals(actual), what + ": expected " + expected + ", not " + actual);
    }

    private static String valid(Findings findings) {
        String json = findings.toJson(true);
        return json.replaceAll("^.*?\"valid\":(true|false|\"unknown\").*$", "$1");
    }

    // ---- partitions

    private static void crashedReadsAndReadsOfUnknownValuesAreLeftOut() {
        Script script = new Script("register")
                .op(Function.WRITE, 0, 1, 1)
                .op(Function.READ, 2, Script.CRASHED, 7)
                .op(Function.READ, 3, 4, Function.UNKNOWN)
                .op(Function.READ, 5, 6, 1);
        List<Partition> partitions = Partitions.of(script.history(), Models.byName("register"));
        expectEqual(1, partitions.size(), "partitions");
        expectEqual("[0, 3]", Arrays.toString(partitions.get(0).operations().number), "operations that tell something");
        expectEqual("true", valid(judge(script)), "verdict");
    }

    private static void everyKeyIsAnObjectInTheOrderOfAppearance() {
        Script script = new Script("register")
                .op("b", Function.WRITE, 0, 1, 1)
                .op("a", Function.WRITE, 2, 3, 2)
                .op("b", Function.READ, 4, 5, 1)
                .op("a", Function.READ, 6, 7, 2);
        List<Partition> partitions = Partitions.of(script.history(), Models.byName("register"));
        expectEqual("b", partitions.get(0).key(), "first key");
        expectEqual("[0, 2]", Arrays.toString(partitions.get(0).operations().number), "its operations");
        expectEqual("a", partitions.get(1).key(), "second key");
    }

    private static void theElementsOfASetAreJudgedOneByOneUnlessItIsReadAsAWhole() {
        Script script = new Script("set")
                .op(Function.ADD, 0, 5, 1, 1)
                .op(Function.ADD, 1, 4, 2, 1)
                .op(Function.CONTAINS, 2, 6, 1, 1)
                .op(Function.REMOVE, 3, 7, 2, 1);
        expectEqual(2, Partitions.of(script.history(), Models.byName("set")).size(), "partitions by element");
        Findings findings = judge(script);
        expectEqual("true", valid(findings), "verdict");
        expect(findings.toJson(true).contains("\"orders\":[{\"key\":null,\"order\":["), "one order of all elements");
        replayOrders(script, findings);
        script.op(Function.READ, 8, 9, 1);
        expectEqual(1, Partitions.of(script.history(), Models.byName("set")).size(), "partitions with a read of all");
        expectEqual("true", valid(judge(script)), "verdict with a read of all");
    }

    private static void replayOrders(Script script, Findings findings) {
        String json = findings.toJson(true);
        String order = json.replaceAll("^.*\"order\":\\[([0-9,]*)\\].*$", "$1");
        Operations whole = whole(script);
        int[] numbers = order.isEmpty()
                ? new int[0]
                : Arrays.stream(order.split(",")).mapToInt(Integer::parseInt).toArray();
        String wrong = replay(script, whole, ops(whole, numbers), Integer.MAX_VALUE);
        expectEqual("", wrong, "replay of " + order + " of " + text(script));
    }

    // ---- witnesses

    private static void aStaleReadIsExplainedWithTheWriteOfItsValue() {
        Script script = new Script("register")
                .op(Function.WRITE, 0, 1, 1)
                .op(Function.READ, 2, 3, 1)
                .op(Function.WRITE, 4, 5, 3)
                .op(Function.WRITE, 6, 7, 2)
                .op(Function.READ, 8, 9, 2)
                .op(Function.READ, 10, 11, 1)
                .op(Function.READ, 12, 13, 2)
                .op(Function.READ, 14, 15, 1);
        Findings findings = judge(script);
        Witness witness = findings.witness();
        expectEqual(5, witness.blocked(), "blocked");
        expectEqual("[0, 1, 2, 3, 4]", Arrays.toString(witness.prefix()), "prefix");
        expectEqual("[0, 3, 5]", Arrays.toString(witness.minimal()), "minimal");
        expectEqual("[5]", Arrays.toString(witness.deadEnds().get(0).illegal()), "illegal there");
        expectEqual("2", witness.deadEnds().get(0).state(), "state there");
    }

    private static void aMessageThatLeavesTwiceIsExplainedWithHowItCame() {
        Script script = new Script("fifo-queue")
                .op(Function.ENQUEUE, 0, 1, 2)
                .op(Function.ENQUEUE, 2, 3, 1)
                .op(Function.DEQUEUE, 4, 5, 2)
                .op(Function.DEQUEUE, 6, 9, 1)
                .op(Function.DEQUEUE, 7, 8, 1);
        Witness witness = judge(script).witness();
        expectEqual(3, witness.blocked(), "blocked");
        expectEqual("[1, 3, 4]", Arrays.toString(witness.minimal()), "minimal");
    }

    private static void aWriteThatCrashedButWasReadBelongsToTheStory() {
        Script script = new Script("register")
                .op(Function.WRITE, 0, Script.CRASHED, 1)
                .op(Function.READ, 1, 2, 1)
                .op(Function.WRITE, 3, 4, 2)
                .op(Function.READ, 5, 6, 1);
        Witness witness = judge(script).witness();
        expectEqual(3, witness.blocked(), "blocked");
        expectEqual("[0, 1, 2, 3]", Arrays.toString(witness.minimal()), "minimal");
    }

    private static void aLockAcquiredMoreOftenThanReleasedHasAShortWitness() {
        Script script = new Script("mutex");
        int event = 0;
        for (int i = 0; i < 60; i++) { // each pair overlaps the next one
            script.op(Function.ACQUIRE, event, event + 5).op(Function.RELEASE, event + 1, event + 7);
            event += 4;
            event += event % 4 == 0 ? 0 : 1;
            script.operations.get(2 * i)[2] = 10 * i;
            script.operations.get(2 * i)[3] = 10 * i + 14;
            script.operations.get(2 * i + 1)[2] = 10 * i + 5;
            script.operations.get(2 * i + 1)[3] = 10 * i + 18;
        }
        script.op(Function.ACQUIRE, 1000, 1001).op(Function.ACQUIRE, 1002, 1003);
        Witness witness = judge(script).witness();
        expectEqual(121, witness.blocked(), "blocked");
        expect(witness.minimal().length <= 24, "minimal of " + witness.minimal().length);
        expect(!linearizable(script, only(script, witness.minimal())), "minimal is illegal");
    }

    // ---- random histories against all orders

    private static void witnessesAndOrdersOfRandomHistoriesAreRight() {
        Random random = new Random(7);
        int[] seen = new int[2];
        for (int i = 0; i < 4_000; i++) {
            Script script = randomScript(random);
            Operations whole = whole(script);
            boolean expected = linearizable(script, whole);
            Findings findings = judge(script);
            expectEqual(String.valueOf(expected), valid(findings), "verdict on " + text(script));
            seen[expected ? 1 : 0]++;
            if (expected) {
                replayOrders(script, findings);
            } else {
                checkWitness(script, whole, findings.witness());
            }
        }
        expect(seen[0] > 500 && seen[1] > 500, "both verdicts are common: " + Arrays.toString(seen));
    }

    private static void checkWitness(Script script, Operations whole, Witness witness) {
        int until = Integer.MAX_VALUE;
        for (int op = 0; op < whole.count; op++) {
            if (whole.ret[op] < until && !linearizable(script, SubHistory.before(whole, whole.ret[op] + 1))) {
                until = whole.ret[op];
            }
        }
        int blocked = Arrays.binarySearch(whole.number, witness.blocked());
        expectEqual(until, whole.ret[blocked], "return of the blocked one in " + text(script));
        expectEqual("", replay(script, whole, ops(whole, witness.prefix()), until), "prefix of " + text(script));
        expect(!witness.deadEnds().isEmpty(), "a dead end in " + text(script));
        for (Witness.DeadEnd end : witness.deadEnds()) {
            int[] order = ops(whole, end.order());
            expectEqual("", replay(script, whole, order, until), "dead end of " + text(script));
            States states = states(script, whole);
            int state = states.initial();
            for (int op : order) {
                state = states.step(state, whole.kind[op]);
            }
            expectEqual(states.describe(state), end.state(), "state of a dead end");
            for (int op : ops(whole, end.illegal())) {
                expectEqual(States.ILLEGAL, states.step(state, whole.kind[op]), "illegal there, op " + op);
            }
        }
        expect(!linearizable(script, only(script, witness.minimal())), "minimal is illegal in " + text(script));
        expect(Arrays.binarySearch(witness.minimal(), witness.blocked()) >= 0, "blocked is in the minimal part");
    }

    private static Script randomScript(Random random) {
        String[] models = {"cas-register", "mutex", "fifo-queue", "unordered-queue", "set", "counter"};
        Script script = new Script(models[random.nextInt(models.length)]);
        int count = 1 + random.nextInt(7);
        int[] events = random.ints(0, 1000).distinct().limit(2L * count).toArray();
        int open = 0;
        Integer[] order = new Integer[count];
        for (int i = 0; i < count; i++) {
            order[i] = i;
            int call = Math.min(events[2 * i], events[2 * i + 1]);
            int ret = Math.max(events[2 * i], events[2 * i + 1]);
            if (random.nextInt(3) > 0) { // shorter, so that real time matters
                int close = call;
                for (int other : events) {
                    close = other > call && other < ret && random.nextInt(3) == 0 ? other : close;
                }
                ret = close == call || taken(events, close, i) ? ret : close;
            }
            events[2 * i] = call;
            events[2 * i + 1] = random.nextInt(6) == 0 ? Script.CRASHED : ret;
        }
        Arrays.sort(order, (a, b) -> Integer.compare(events[2 * a], events[2 * b]));
        for (int i : order) {
            addRandom(script, random, events[2 * i], events[2 * i + 1]);
        }
        return script;
    }

    private static boolean taken(int[] events, int event, int but) {
        for (int i = 0; i < events.length; i++) {
            if (i / 2 != but && events[i] == event) {
                return true;
            }
        }
        return false;
    }

    private static void addRandom(Script script, Random random, int call, int ret) {
        int a = random.nextInt(3);
        int b = 1 + random.nextInt(2);
        boolean which = random.nextBoolean();
        switch (script.model) {
            case "mutex" -> script.op(which ? Function.ACQUIRE : Function.RELEASE, call, ret);
            case "fifo-queue", "unordered-queue" -> {
                long out = ret == Script.CRASHED ? Function.UNKNOWN : a;
                script.op(which ? Function.ENQUEUE : Function.DEQUEUE, call, ret, which ? b : out);
            }
            case "counter" -> script.op(which ? Function.ADD : Function.READ, call, ret, which ? b : a + 1);
            case "set" -> {
                int function = which ? Function.ADD : random.nextBoolean() ? Function.REMOVE : Function.CONTAINS;
                script.op(function, call, ret, b, ret == Script.CRASHED ? Function.UNKNOWN : random.nextInt(2));
            }
            default -> {
                int function = random.nextInt(4);
                if (function < Function.CAS) {
                    script.op(function, call, ret, which ? a : b);
                } else {
                    script.op(function, call, ret, a, b);
                }
            }
        }
    }

    /** All of it as one partition; what tells nothing is left out. */
    private static Operations whole(Script script) {
        Model real = Models.byName(script.model);
        Model undivided = new Model() {
            @Override
            public String name() {
                return real.name();
            }

            @Override
            public States states(Operations operations, long[] init, String[] values) {
                return real.states(operations, init, values);
            }
        };
        return Partitions.of(script.history(), undivided).get(0).operations();
    }

    private static Operations only(Script script, int[] numbers) {
        Operations whole = whole(script);
        boolean[] kept = new boolean[whole.count];
        for (int op : ops(whole, numbers)) {
            kept[op] = true;
        }
        return SubHistory.only(whole, kept);
    }

    private static int[] ops(Operations operations, int[] numbers) {
        return Arrays.stream(numbers).map(number -> Arrays.binarySearch(operations.number, number)).toArray();
    }

    private static States states(Script script, Operations operations) {
        return Models.byName(script.model).states(operations, script.init, script.values);
    }

    /** By trying every order. */
    private static boolean linearizable(Script script, Operations operations) {
        States states = states(script, operations);
        return explore(operations, states, states.initial(), new boolean[operations.count]);
    }

    private static boolean explore(Operations operations, States states, int state, boolean[] done) {
        int earliest = Operations.NEVER;
        for (int op = 0; op < operations.count; op++) {
            earliest = done[op] ? earliest : Math.min(earliest, operations.ret[op]);
        }
        if (earliest == Operations.NEVER) {
            return true;
        }
        for (int op = 0; op < operations.count && operations.call[op] < earliest; op++) {
            int next = done[op] ? States.ILLEGAL : states.step(state, operations.kind[op]);
            if (next != States.ILLEGAL) {
                done[op] = true;
                boolean found = explore(operations, states, next, done);
                done[op] = false;
                if (found) {
                    return true;
                }
            }
        }
        return false;
    }

    /** What is wrong with this order of the history up to before an event, empty when nothing is. */
    private static String replay(Script script, Operations operations, int[] order, int until) {
        States states = states(script, operations);
        boolean[] done = new boolean[operations.count];
        int state = states.initial();
        for (int op : order) {
            if (done[op] || operations.call[op] >= until) {
                return "op " + op + " is there twice or too early";
            }
            for (int other = 0; other < operations.count; other++) {
                if (!done[other] && operations.ret[other] < operations.call[op]) {
                    return "op " + op + " comes before op " + other;
                }
            }
            done[op] = true;
            state = states.step(state, operations.kind[op]);
            if (state == States.ILLEGAL) {
                return "op " + op + " is illegal";
            }
        }
        for (int op = 0; op < operations.count; op++) {
            if (!done[op] && operations.ret[op] < until) {
                return "op " + op + " is missing";
            }
        }
        return "";
    }

    private static String text(Script script) {
        StringBuilder text = new StringBuilder(script.model);
        for (int i = 0; i < script.operations.size(); i++) {
            int[] row = script.operations.get(i);
            text.append("\n  f ").append(row[1]).append(' ').append(Arrays.toString(script.arguments.get(i)));
            text.append(' ').append(row[2]).append("..").append(row[3]);
        }
        return text.toString();
    }

    // ---- budgets

    /** Of this thread: what else the machine does must fail no test. */
    private static double cpuSeconds() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1e9;
    }

    private static Script hopeless(String key, int first) {
        Script script = new Script("register");
        addHopeless(script, key, first);
        return script;
    }

    /**
     * Concurrent compare-and-sets are the edges of a graph; their order would be an Eulerian path, and there is none.
     */
    private static int addHopeless(Script script, String key, int first) {
        Random random = new Random(first);
        int width = 44;
        for (int i = 0; i < width; i++) {
            int from = random.nextInt(9);
            script.op(key, Function.CAS, first + i, first + 2 * width + i, from, (from + 1 + random.nextInt(8)) % 9);
        }
        script.op(key, Function.CAS, first + 3 * width, first + 3 * width + 1, 5, 5);
        return first + 3 * width + 2;
    }

    private static void timeAndMemoryEndAHopelessHistoryInTime() {
        for (long memory : new long[] {MEMORY, 4L << 20}) {
            Script script = hopeless(null, 0);
            double begin = cpuSeconds();
            Findings findings = new Checker(1, memory, 1, true, false).judge(script.history());
            double took = cpuSeconds() - begin;
            String json = findings.toJson(false);
            expect(took < 1.1, "a limit of 1 s was kept: " + took);
            if (!"\"unknown\"".equals(valid(findings))) {
                expect(false, "hopeless was decided: " + json);
            }
            expect(json.contains("\"undecided\":[{\"key\":null,\"reason\":\""), "undecided is named: " + json);
            expect(findings.peakBytes() <= memory, "memory was kept");
        }
    }

    private static void anIllegalKeyIsFoundAmongHopelessOnesWhateverTheirOrder() {
        for (boolean last : new boolean[] {true, false}) {
            Script script = new Script("register");
            int event = last ? 0 : illegal(script, "bad", 0);
            for (String key : new String[] {"x", "y", "z"}) {
                event = addHopeless(script, key, event);
            }
            if (last) {
                illegal(script, "bad", event);
            }
            double begin = cpuSeconds();
            Findings findings = new Checker(10, MEMORY, 1, false, false).judge(script.history());
            double took = cpuSeconds() - begin;
            expectEqual("false", valid(findings), "verdict");
            expectEqual("bad", findings.witness().key(), "key");
            expect(took < 1, "quickly: " + took);
        }
    }

    private static int illegal(Script script, String key, int event) {
        script.op(key, Function.CAS, event, event + 1, 0, 1).op(key, Function.CAS, event + 2, event + 3, 0, 2);
        return event + 4;
    }

    private static void everyKeyGetsAVerdictOrIsNamed() {
        for (int threads = 1; threads <= 3; threads++) {
            Script script = new Script("register");
            int event = addHopeless(script, "hopeless", 0);
            event = illegal(script, "bad", event);
            event = illegal(script, "worse", event);
            script.op("good", Function.WRITE, event, event + 1, 1);
            String json = new Checker(0.3, MEMORY, threads, true, false).judge(script.history()).toJson(false);
            expect(json.contains("\"valid\":false"), json);
            expect(json.contains("\"violated\":[\"bad\",\"worse\"]"), json);
            expect(json.contains("\"undecided\":[{\"key\":\"hopeless\",\"reason\":\""), json);
            expect(json.contains("\"of\":45"), json);
            String first = new Checker(1, MEMORY, threads, false, false).judge(script.history()).toJson(false);
            expect(first.contains("\"valid\":false"), first);
        }
    }

    private static void manySmallHistoriesAreCheap() {
        Random random = new Random(3);
        Checker checker = new Checker(1, MEMORY, 1, true, false);
        double begin = cpuSeconds();
        for (int i = 0; i < 2_000; i++) {
            checker.judge(randomScript(random).history());
        }
        double took = cpuSeconds() - begin;
        expect(took < 2, "2,000 small histories took " + took + " s");
    }

    // ---- JSON and bytes

    private static void hostileTextsSurviveAsJson() {
        String hostile = "a\"b\\c\n\u0000\u2028</script>\ud83d\ude00\ud83d\u007f";
        Script script = new Script("register").op(hostile, Function.WRITE, 0, 1, 1).op(hostile, Function.READ, 2, 3, 2);
        script.id = hostile;
        String json = judge(script).toJson(true);
        String expected = "\"a\\\"b\\\\c\\u000a\\u0000\\u2028</script>\ud83d\ude00\\ud83d\\u007f\"";
        expect(json.startsWith("{\"id\":" + expected + ","), json);
        expect(json.contains("\"violated\":[" + expected + "]"), json);
    }

    private static void aBatchIsJudgedHistoryByHistory() {
        Script good = new Script("register").op(Function.WRITE, 0, 1, 1);
        Script bad = new Script("register").op(Function.READ, 0, 1, 1);
        String all = Checker.check(Script.pack(good, bad), 1, MEMORY, 0, true, true);
        expect(all.startsWith("[{") && all.endsWith("}]"), all);
        expect(all.contains("\"order\":[0]") && all.contains("\"valid\":false"), all);
        expectEqual("[]", Checker.check(Script.pack(), 1, MEMORY, 1, true, true), "no history");
    }

    private static void resultsComeInOrderWhateverTheThreads() {
        Random random = new Random(11);
        Script[] scripts = new Script[400];
        for (int i = 0; i < scripts.length; i++) {
            scripts[i] = i == 5 ? hopeless(null, 0) : randomScript(random);
            scripts[i].id = "number " + i;
        }
        String volatileParts = "\"(ms|witness_ms|peak_mib|configs|placed)\":[0-9.]+";
        String one = Checker.check(Script.pack(scripts), 0.3, MEMORY, 1, true, true).replaceAll(volatileParts, "");
        String three = Checker.check(Script.pack(scripts), 0.3, MEMORY, 3, true, true).replaceAll(volatileParts, "");
        expectEqual(one, three, "results of one and of three threads");
        expect(one.contains("\"id\":\"number 5\",\"valid\":\"unknown\""), "the hopeless one is undecided");
        scripts[200] = new Script("no-such-model").op(Function.WRITE, 0, 1, 1);
        refused(Script.pack(scripts), "an unknown model among others");
    }

    private static void damagedBatchesAreRefusedWithASentence() {
        Script script = new Script("register").op("k", Function.WRITE, 0, 1, 1).op("k", Function.READ, 2, 3, 1);
        byte[] good = Script.pack(script);
        for (int length = 0; length < good.length; length++) {
            refused(Arrays.copyOf(good, length), "cut to " + length);
        }
        Random random = new Random(1);
        for (int i = 0; i < 3_000; i++) {
            byte[] damaged = good.clone();
            damaged[random.nextInt(damaged.length)] ^= (byte) (1 << random.nextInt(8));
            try {
                Checker.check(damaged, 1, MEMORY, 1, true, true);
            } catch (IllegalArgumentException e) {
                expect(e.getMessage() != null && !e.getMessage().isEmpty(), "a sentence");
            }
        }
        refused(Script.pack(new Script("no-such-model").op(Function.WRITE, 0, 1, 1)), "an unknown model");
        refused(Script.pack(new Script("mutex").op(Function.WRITE, 0, 1, 1)), "a function of another model");
    }

    private static void refused(byte[] batch, String what) {
        try {
            Checker.check(batch, 1, MEMORY, 1, true, true);
        } catch (IllegalArgumentException e) {
            return;
        }
        expect(false, what + " was accepted");
    }

    public static void main(String[] arguments) {
        crashedReadsAndReadsOfUnknownValuesAreLeftOut();
        everyKeyIsAnObjectInTheOrderOfAppearance();
        theElementsOfASetAreJudgedOneByOneUnlessItIsReadAsAWhole();
        aStaleReadIsExplainedWithTheWriteOfItsValue();
        aMessageThatLeavesTwiceIsExplainedWithHowItCame();
        aWriteThatCrashedButWasReadBelongsToTheStory();
        aLockAcquiredMoreOftenThanReleasedHasAShortWitness();
        witnessesAndOrdersOfRandomHistoriesAreRight();
        timeAndMemoryEndAHopelessHistoryInTime();
        anIllegalKeyIsFoundAmongHopelessOnesWhateverTheirOrder();
        everyKeyGetsAVerdictOrIsNamed();
        manySmallHistoriesAreCheap();
        hostileTextsSurviveAsJson();
        aBatchIsJudgedHistoryByHistory();
        resultsComeInOrderWhateverTheThreads();
        damagedBatchesAreRefusedWithASentence();
        System.out.println("all right");
    }
}
