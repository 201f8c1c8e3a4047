"""What is asked of two caches that hold the same: questions whose answer is held, and others.

As a conversation goes on, a cache is asked each question before a word of it was said (its answer is held by
chance, or is a near miss: the cache is full of what stands around it), when it was said (its answer is
held, mostly), the same question denied, and a question about something else altogether.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from precall.bench.coverage_corpus import Exchange, Utterance
from precall.bench.pushed_cache import AskedRung, PushedCache
from precall.engine.retrieval.search import search_fast
from precall.scoring.coverage import Decision

_AUXILIARY: Final = re.compile(
    r"\b(is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.IGNORECASE
)
_FOUND: Final = 10


class CaseKind(Enum):
    """What of the answer is held. A denied question is answered by nothing that answers the question."""

    HELD = "held"
    NEAR_MISS = "near miss"
    ELSEWHERE = "elsewhere"
    DENIED = "denied"


class Verdict(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Served:
    """Rows that a cache answered with; None: it did not. ``sure``: it would not ask a server beside that.

    ``score``: of the best of them, by the cache's own measure.
    """

    rows: tuple[int, ...] | None
    sure: bool
    score: float = 0.0

    def verdict(self, case: "CacheCase", *, doubtful: bool) -> Verdict:
        """``doubtful``: what the cache is not sure of is served too."""
        if self.rows is None or not (self.sure or doubtful):
            return Verdict.MISSED
        answered = case.kind is not CaseKind.DENIED and not case.gold.isdisjoint(self.rows)
        return Verdict.RIGHT if answered else Verdict.WRONG


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """Rows that are held, by the query that brought them."""

    query: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CacheCase:
    """``gold``: rows that answer. ``ours``: what precall's cache made of it."""

    kind: CaseKind
    question: str
    gold: frozenset[int]
    groups: tuple[HeldGroup, ...]
    ours: Served


def denied(text: str) -> str:
    """The same question with a "not" in it; a statement is said to be untrue."""
    if text.rstrip().endswith("?") and _AUXILIARY.search(text):
        return _AUXILIARY.sub(lambda found: _with_not(found[0]), text, count=1)
    return f"It is not true that {text[:1].lower()}{text[1:]}"


def _with_not(auxiliary: str) -> str:
    irregular = {"can": "can't", "will": "won't"}
    return irregular.get(auxiliary.lower(), f"{auxiliary}n't")


def case_texts(exchanges: Sequence[Exchange]) -> list[str]:
    """Everything that a cache hears or is asked, each once."""
    texts: dict[str, None] = {}
    for exchange in exchanges:
        said: list[str] = []
        for utterance in exchange.utterances:
            said.append(utterance.text)
            heard = (*utterance.partials, utterance.text, " ".join(said[-3:]))
            texts |= dict.fromkeys((*heard, denied(utterance.text)))
    return list(texts)


def cases(rung: AskedRung, exchanges: Sequence[Exchange], items: int) -> Iterator[CacheCase]:
    """All conversations' cases, with ``items`` held at most.

    Left out are questions that a search of everything does not answer, by precall's formula or by the cosine
    alone: no cache could.
    """
    for number, exchange in enumerate(exchanges):
        others = exchanges[(number + 1) % len(exchanges)].utterances
        yield from _conversation(rung, exchange, others, items)


def _conversation(
    rung: AskedRung, exchange: Exchange, others: Sequence[Utterance], items: int
) -> Iterator[CacheCase]:
    cache = PushedCache(rung, items)
    for place, utterance in enumerate(exchange.utterances):
        answerable = _answerable(rung, utterance)
        if place and answerable:
            yield _case(cache, utterance.text, utterance)
        for partial in utterance.partials:
            cache.hear(partial, partial=True)
        if answerable:
            yield _case(cache, utterance.text, utterance)
            yield _case(cache, denied(utterance.text), utterance, CaseKind.DENIED)
        other = others[place % len(others)]
        if _answerable(rung, other):
            yield _case(cache, other.text, other, CaseKind.ELSEWHERE)
        cache.hear(utterance.text, partial=False)


def _case(
    cache: PushedCache, question: str, asked: Utterance, kind: CaseKind = CaseKind.NEAR_MISS
) -> CacheCase:
    """``kind``: of a question whose answer is not held; one that is held is HELD, if it is not denied."""
    held = {int(memory_id): text for memory_id, text in cache.brought_by.items()}
    gold = frozenset(asked.gold)
    if kind is not CaseKind.DENIED and not gold.isdisjoint(held):
        kind = CaseKind.HELD
    grouped: dict[str, list[int]] = {}
    for row, text in held.items():
        grouped.setdefault(text, []).append(row)
    looked_up = cache.lookup(question)
    rows = tuple(int(found.item.memory.id) for found in looked_up.found)
    sure = looked_up.decision in (Decision.COMPLETE, Decision.SURE)
    served = Served(None if looked_up.decision is Decision.MISS else rows, sure)
    groups = tuple(HeldGroup(text, tuple(rows)) for text, rows in grouped.items())
    return CacheCase(kind, question, gold, groups, served)


def _answerable(rung: AskedRung, utterance: Utterance) -> bool:
    gold = set(map(str, utterance.gold))
    by_us = {hit.memory.id for hit in search_fast([rung.partition], rung.query([utterance.text], _FOUND))}
    return not gold.isdisjoint(by_us) and not gold.isdisjoint(rung.nearest(utterance.text, _FOUND))
