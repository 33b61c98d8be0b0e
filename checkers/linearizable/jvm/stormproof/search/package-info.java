/** The searches for a linearization, and the competition between them. */
package stormproof.search;
