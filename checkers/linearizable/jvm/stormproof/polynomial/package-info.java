/** Algorithms that decide some histories of a model without a search. */
package stormproof.polynomial;
