package stormproof;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import stormproof.model.Operations;

/** Random histories of a model: lawful ones, lawful ones with one thing changed, and any. */
final class Randomly {
    private final Alphabet alphabet;
    private final Random random;
    private final String[] values;

    Randomly(Alphabet alphabet, Random random) {
        this.alphabet = alphabet;
        this.random = random;
        this.values = alphabet.texts();
    }

    /** {@code operations}: at most so many. */
    Operations next(int operations) {
        int count = 2 + random.nextInt(operations - 1);
        boolean lawful = random.nextInt(4) > 0;
        boolean distinct = random.nextBoolean();
        int[] kinds = lawful ? lawful(count, distinct) : any(count);
        if (lawful && random.nextInt(3) > 0) {
            kinds[random.nextInt(kinds.length)] = random.nextInt(alphabet.letters.size());
        }
        return timed(kinds, random.nextInt(4) * 2.0 + 0.5, 2 + random.nextInt(9));
    }

    private int[] any(int count) {
        return random.ints(count, 0, alphabet.letters.size()).toArray();
    }

    private int[] lawful(int count, boolean distinct) {
        int[] kinds = new int[count];
        boolean[] used = new boolean[alphabet.letters.size()];
        Object state = BruteForce.initial(alphabet.model, alphabet.init, values);
        int size = 0;
        for (int tries = 0; size < count && tries < 60 * count; tries++) {
            int kind = random.nextInt(used.length);
            Alphabet.Letter letter = alphabet.letters.get(kind);
            Object next = BruteForce.step(alphabet.model, state, letter.function(), letter.arguments(), values);
            if (next != null && !(distinct && letter.writes() && used[kind])) {
                used[kind] = true;
                state = next;
                kinds[size++] = kind;
            }
        }
        return size == 0 ? any(1) : Arrays.copyOf(kinds, size);
    }

    /** Each operation spans its place in the sequence; calls are in order only by chance. */
    private Operations timed(int[] kinds, double width, int crashRarity) {
        int count = kinds.length;
        record Event(double at, int op, boolean call) {}
        List<Event> events = new ArrayList<>();
        for (int op = 0; op < count; op++) {
            Alphabet.Letter letter = alphabet.letters.get(kinds[op]);
            events.add(new Event(op - width * random.nextDouble(), op, true));
            boolean crashes = letter.crashes() && (!letter.completes() || random.nextInt(crashRarity) == 0);
            if (!crashes) {
                events.add(new Event(op + width * random.nextDouble(), op, false));
            }
        }
        events.sort((a, b) -> Double.compare(a.at, b.at));
        int[] place = new int[count];
        int[] byCall = new int[count];
        int[] call = new int[count];
        int[] ret = new int[count];
        Arrays.fill(ret, Operations.NEVER);
        int called = 0;
        for (int i = 0; i < events.size(); i++) {
            Event event = events.get(i);
            if (event.call) {
                place[event.op] = called;
                byCall[called] = kinds[event.op];
                call[called++] = i;
            } else {
                ret[place[event.op]] = i;
            }
        }
        return alphabet.operations(byCall, call, ret);
    }
}
