package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.util.Budget;
import stormproof.util.LongInterner;

/**
 * A set that nobody read as a whole: each element is an object of its own ({@link TwoStates}: absent, present), and the
 * orders of the elements, each operation at its moment, make one of the whole (Herlihy and Wing, locality).
 */
final class ElementsShortcut extends Polynomial {
    ElementsShortcut(Model model) {
        super("elements", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        LongInterner elements = new LongInterner();
        for (long element : init) {
            elements.place(element);
        }
        int present = elements.size();
        TwoStates states = new TwoStates(operations);
        int[] element = new int[operations.count];
        for (int op = 0; op < operations.count; op++) {
            boolean untold = operations.functionOf(op) == Function.CONTAINS
                    && operations.argumentsOf(op)[1] == Function.UNKNOWN;
            if (operations.functionOf(op) == Function.READ || untold) {
                return null;
            }
            long[] arguments = operations.argumentsOf(op);
            element[op] = elements.place(arguments[0]);
            int told = arguments[1] == Function.UNKNOWN ? -1 : (int) arguments[1];
            switch (operations.functionOf(op)) {
                case Function.CONTAINS -> states.set(op, TwoStates.LOOK, told);
                case Function.ADD -> states.set(op, type(told), told == 0 ? 1 : 0);
                default -> states.set(op, type(told), told == 0 ? 0 : 1);
            }
        }
        int[] first = new int[elements.size() + 1];
        for (int op = 0; op < operations.count; op++) {
            first[element[op] + 1]++;
        }
        for (int i = 0; i < elements.size(); i++) {
            first[i + 1] += first[i];
        }
        int[] end = first.clone();
        int[] byElement = new int[operations.count];
        for (int op = 0; op < operations.count; op++) {
            byElement[end[element[op]]++] = op;
        }
        boolean uncertain = false;
        for (int i = 0; i < elements.size(); i++) {
            int[] ops = Arrays.copyOfRange(byElement, first[i], first[i + 1]);
            int stuck = states.run(ops, i < present ? 1 : 0);
            if (stuck >= 0 && states.isExact(ops)) {
                return Decision.violation("what operation " + operations.number[stuck] + " tells of "
                        + Models.text(values, elements.at(i)) + " fits no order of the operations on it");
            }
            uncertain |= stuck >= 0;
        }
        return uncertain ? null : Decision.linearizable(states.order());
    }

    private static byte type(int told) {
        return told < 0 ? TwoStates.SETTER : told == 0 ? TwoStates.LOOK : TwoStates.FLIP;
    }
}
