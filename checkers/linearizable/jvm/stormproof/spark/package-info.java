/** Judges millions of objects on the executors of a Spark session. */
package stormproof.spark;
