"""Faults of the object store, switched on by the harness: requests are refused, delayed, executed without an answer, or
answered with an old list.

Rules are added, removed and asked for their hits by id; each names the verbs that it is about. All rules that hit a
request act on it together, see :class:`Treatment`. They live in memory alone: a store that starts again has none.
Requests of the node that put up a rule are not touched by it, for the harness reads what is left in the tier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chaos.events import Event, event
from chaos.node import Env, Malformed
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import item, listed, optional_text, read_object

TIMER = "tier-faults"
#: So many rules may stand at a time, and so late may a request be.
MAX_RULES, MAX_DELAY_MS = 256, 3_600_000
#: So many requests are held back at a time; further ones are dropped, as by a network that is full.
MAX_LATE = 10_000
#: Sizes by key, sorted.
Listing = Mapping[str, int]


class TierEffect(StrEnum):
    REFUSE = "refuse"
    EXPIRE = "expire"
    LOSE_ANSWER = "lose_answer"
    SLOW = "slow"
    STALE_LIST = "stale_list"


#: How a refused request is answered.
REFUSALS = {
    TierEffect.REFUSE: (Response.SYSTEM_ERROR, "the store failed"),
    TierEffect.EXPIRE: (Response.NO_PERMISSION, "the credentials have expired"),
}


@event("tier_fault")
class TierFault(Event):
    """The store handled a request wrongly, because the harness had asked it to. A refused request has no other row."""

    rule: Annotated[str, "of a fault of the tier"]
    effect: Annotated[str, "`refuse`, `expire`, `lose_answer`, `slow` or `stale_list`"]
    verb: Annotated[str, "of the request"]
    request: Annotated[str, "the caller's id of the request"]


@dataclass(slots=True, kw_only=True)
class Rule:
    """``per_mille`` of the requests with one of these verbs are hit, ``delay_ns`` is how late a slow one is, and
    ``listing`` is what a stale list shows."""

    id: str
    by: str
    effect: TierEffect
    verbs: Sequence[str]
    per_mille: int
    delay_ns: int
    listing: Listing
    hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What the rules that hit a request do to it together: their delays add up, the first refusal counts, it is shown
    the oldest list, and it is answered only if no rule suppresses the answer."""

    delay_ns: int = 0
    refusal: TierEffect | None = None
    answer_lost: bool = False
    listing: Listing | None = None


class Faults:
    """The rules of one life of a store, and the requests that slow ones hold back."""

    def __init__(self, listing: Callable[[], Listing]) -> None:
        self._listing = listing
        self._rules: dict[str, Rule] = {}
        self._late: deque[tuple[int, Callable[[Env], None]]] = deque()  # by when they are due

    def message(self, env: Env, source: str, message: Command) -> bool:
        """Take a command of the harness; False for any other message."""
        if message.code not in (Request.STORE_BREAK, Request.STORE_MEND, Request.STORE_HITS):
            return False
        rule_id = optional_text(message.fields, "rule", code=Response.MESSAGE_ILLEGAL)
        rule = self._rules.get(rule_id)
        answer = message.reply(fields={"hits": str(rule.hits if rule else 0)})
        if message.code == Request.STORE_MEND:
            self._rules.pop(rule_id, None)
        elif message.code == Request.STORE_BREAK and rule is None:
            if len(self._rules) >= MAX_RULES:
                raise Malformed(f"there are {MAX_RULES} rules already", Response.MESSAGE_ILLEGAL)
            self._rules[rule_id] = self._read(rule_id, source, message)
        env.send(source, answer)
        return True

    def _read(self, rule_id: str, source: str, message: Command) -> Rule:
        """Read a rule. Raises :class:`chaos.node.Malformed`."""
        code = Response.MESSAGE_ILLEGAL
        asked = read_object(message.body, code)
        wanted, delay_ms = item(asked, "effect", str, code=code), item(asked, "delay_ms", int, code=code)
        if wanted not in {*TierEffect}:
            raise Malformed(f"no rule: there is no effect {wanted!r}", code)
        if not 0 <= delay_ms <= MAX_DELAY_MS:
            raise Malformed(f"no rule: a delay is 0 to {MAX_DELAY_MS} ms, not {delay_ms}", code)
        effect = TierEffect(wanted)
        return Rule(
            id=rule_id,
            by=source,
            effect=effect,
            verbs=listed(asked, "verbs", str, code=code),
            per_mille=item(asked, "per_mille", int, code=code),
            delay_ns=delay_ms * 1_000_000,
            listing=self._listing() if effect is TierEffect.STALE_LIST else {},
        )

    def treat(self, env: Env, source: str, verb: str, request: str) -> Treatment:
        """Return what happens to this request; each rule that hits it is counted and traced."""
        hitting = [rule for rule in self._rules.values() if self._hits(env, rule, source, verb)]
        for rule in hitting:
            rule.hits += 1
            env.trace(TierFault(rule=rule.id, effect=str(rule.effect), verb=verb, request=request))
        lists = [rule.listing for rule in hitting if rule.effect is TierEffect.STALE_LIST]
        return Treatment(
            delay_ns=sum(rule.delay_ns for rule in hitting if rule.effect is TierEffect.SLOW),
            refusal=next((rule.effect for rule in hitting if rule.effect in REFUSALS), None),
            answer_lost=any(rule.effect is TierEffect.LOSE_ANSWER for rule in hitting),
            listing=lists[0] if lists else None,
        )

    def _hits(self, env: Env, rule: Rule, source: str, verb: str) -> bool:
        if verb not in rule.verbs or source == rule.by:
            return False
        return rule.per_mille >= 1000 or env.rng.randrange(1000) < rule.per_mille

    def hold(self, env: Env, delay_ns: int, serve: Callable[[Env], None]) -> None:
        """Serve a request after this delay, also if its caller has given up by then: a slow network does the same."""
        if len(self._late) >= MAX_LATE:
            return
        if not self._late:
            env.set_timer(TIMER, delay_ns)
        # Requests of one connection stay in order, also when a later rule would hold them for less.
        due_ns = max(env.mono_ns() + delay_ns, self._late[-1][0] if self._late else 0)
        self._late.append((due_ns, serve))

    @property
    def holding(self) -> bool:
        return bool(self._late)

    def timer(self, env: Env) -> None:
        now = env.mono_ns()
        while self._late and self._late[0][0] <= now:
            self._late.popleft()[1](env)
        if self._late:
            env.set_timer(TIMER, self._late[0][0] - now)
