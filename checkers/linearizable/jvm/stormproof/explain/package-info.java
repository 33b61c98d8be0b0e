/** Why a history is not linearizable: the longest lawful prefix, dead ends, and the minimal sub-history. */
package stormproof.explain;
