package stormproof.partition;

import stormproof.model.Function;
import stormproof.model.History;

/**
 * Which functions a model has and what their arguments are: a letter each, v a value's id, n a number; with a star, any
 * number of them. Histories that don't fit are refused before a model sees them.
 */
final class Signatures {
    private static final int FUNCTIONS = Function.DRAINED + 1;

    private final History history;
    private final String[] byFunction = new String[FUNCTIONS];

    private Signatures(History history) {
        this.history = history;
        for (int function = 0; function < FUNCTIONS; function++) {
            byFunction[function] = of(history.model(), function);
        }
    }

    /**
     * Compare all operations with what the history's model takes.
     *
     * @throws IllegalArgumentException for the first one that does not fit
     */
    static void check(History history) {
        Signatures signatures = new Signatures(history);
        for (int op = 0; op < history.operations(); op++) {
            signatures.check(op);
        }
    }

    private void check(int op) {
        int function = history.function()[op];
        String signature = function < 0 || function >= FUNCTIONS ? null : byFunction[function];
        if (signature == null) {
            throw new IllegalArgumentException("history " + history.id() + ": operation " + op + " has the function "
                    + function + ", which the model " + history.model() + " does not have");
        }
        int from = history.start()[op];
        int count = history.start()[op + 1] - from;
        boolean star = signature.endsWith("*");
        int fixed = signature.length() - (star ? 2 : 0);
        boolean fits = star ? count >= fixed : count == fixed;
        for (int i = 0; fits && i < count; i++) {
            if (signature.charAt(Math.min(i, fixed)) == 'v') {
                long value = history.arguments()[from + i];
                fits = value == Function.UNKNOWN || (value >= 0 && value < history.values().length);
            }
        }
        if (!fits || (function == Function.TXN && count % 3 != 0)) {
            throw new IllegalArgumentException("history " + history.id() + ": the arguments of operation " + op
                    + " (function " + function + ") are not what the model " + history.model() + " takes");
        }
    }

    /** Null: no such function. */
    private static String of(String model, int function) {
        return switch (model) {
            case "register", "cas-register" -> switch (function) {
                case Function.READ, Function.WRITE -> "v";
                case Function.CAS, Function.CAS_FAILED -> "vv";
                default -> null;
            };
            case "kv" -> switch (function) {
                case Function.READ, Function.WRITE, Function.APPEND -> "v";
                case Function.DELETE -> "";
                default -> null;
            };
            case "multi-register" -> function == Function.TXN ? "n*" : null;
            case "mutex" -> function == Function.ACQUIRE || function == Function.RELEASE ? "" : null;
            case "fenced-lock" -> function == Function.ACQUIRE || function == Function.RELEASE ? "nn" : null;
            case "set" -> switch (function) {
                case Function.ADD, Function.REMOVE, Function.CONTAINS -> "vn";
                case Function.READ -> "v*";
                default -> null;
            };
            case "fifo-queue" -> function == Function.ENQUEUE || function == Function.DEQUEUE ? "v" : null;
            case "unordered-queue" -> switch (function) {
                case Function.ENQUEUE -> "v";
                case Function.DEQUEUE -> "vn*";
                case Function.DRAINED -> "n";
                default -> null;
            };
            case "counter" -> function == Function.ADD || function == Function.READ ? "n" : null;
            case "replica-info" -> switch (function) {
                case Function.READ, Function.WRITE -> "nv*";
                case Function.CAS -> "nnv*";
                case Function.CAS_FAILED -> "nn*";
                default -> null;
            };
            default -> throw new IllegalArgumentException("no signatures for the model " + model);
        };
    }
}
