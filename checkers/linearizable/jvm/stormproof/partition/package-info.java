/** Splits a history into objects, and objects into parts, that can be judged one by one. */
package stormproof.partition;
