/** The packed form in which histories come, and the JSON in which results go. */
package stormproof.io;
