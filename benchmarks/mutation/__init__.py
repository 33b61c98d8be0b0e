"""The mutation score: how many of many small, systematic changes to a system the laws and storms find.

A *mutant* is a system of ours (:mod:`.systems`) with one change (:mod:`.operators`). Mutants are drawn by a seed
(:func:`.mutants.draw`), and each runs through the experiment with the seeds 1 to K until it is found. It is *found* by

* a law: the verdict is INVALID;
* a crash: a node died of its own exception. The run is UNKNOWN, and names the node and the line;
* no service: the run could not be carried out (no node served within a minute, an answer that no client can read, a
  simulation that is stuck). The command ends with the error;
* no end: the run exceeded its limit of time or memory.

The correct system never shows any of these: it runs through the same seeds first, and a seed with which it isn't VALID
takes part no more. Any other UNKNOWN finds nothing. What is not found by then has survived: it is equivalent, it was
not reached, or no law looks.
"""
