/**
 * The checker as others call it. Each package uses only those before it in this list: util, model, partition and
 * polynomial, search, explain, io, this one, spark.
 */
package stormproof;
