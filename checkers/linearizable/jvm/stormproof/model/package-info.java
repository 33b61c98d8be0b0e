/** Histories in columns, and the sequential specifications: what one operation does to one object. */
package stormproof.model;
