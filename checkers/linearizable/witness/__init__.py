"""Why a history is not linearizable, for people: from what a checker found to words and to what a timeline draws.

The vocabulary, here and in ``reports/timeline``:

* a *witness* is what a checker hands over (:class:`checkers.linearizable.history.Witness`): the call that can't be
  placed, the longest prefix that is linearizable, the dead ends, and the minimal witness;
* the *minimal witness* is a part of the calls that is still not linearizable, and of which each call is needed;
* a *partial linearization* is an order of some calls that is allowed as far as it goes; a *dead end* is a longest one,
  with the calls that are illegal after it;
* a *known pattern* is a violation that needs no search to be seen: two changes of one epoch, a stale read.

``words`` says what one call did and why it is illegal somewhere, ``partial_linearization`` follows an order step by
step, ``explanation`` makes sentences of a witness, ``known_patterns`` finds the patterns among the calls of a run, and
``clauses`` names these calls.
"""
