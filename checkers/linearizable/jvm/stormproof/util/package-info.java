/** Memory and time that a check may take, and tables of whole numbers. */
package stormproof.util;
