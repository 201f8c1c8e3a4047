"""The memories behind a fake client: the contract's rules without a server, a disk or a model."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np

from precall.client import convert
from precall.client.errors import AlreadyExists, InvalidScope, VersionNotReached
from precall.client.filter import MemoryFilter
from precall.client.memory import Forgotten, ForgottenScope, Memory, MemoryDraft, Written
from precall.client.read import ReadItem, SearchResult
from precall.scoring import keyword, ranking, terms
from precall.scoring.fusion import Fusion
from precall.scoring.keyword import KeywordIndex
from precall.scoring.ranking import Candidates, RankingWeights

DEFAULT_LADDER: Final = ("customer", "user")


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a request id was answered with."""

    written: tuple[Written, ...] = ()
    forgotten: Forgotten | None = None
    forgotten_scope: ForgottenScope | None = None


class FakeStore:
    """Scopes are checked against one ladder; keyed memories supersede by event time; a repeated request id
    changes nothing. Search scores keywords, importance and recency with the server's formulas; there is no
    model, so the dense part is 0.
    """

    def __init__(self, ladder: Sequence[str] = DEFAULT_LADDER) -> None:
        self.version = 0
        self._ladder = tuple(ladder)
        self._memories: dict[str, Memory] = {}
        self._replies: dict[str, _Reply] = {}

    def rung(self, scope: Mapping[str, str]) -> dict[str, str]:
        """The scope in the ladder's order. Raises InvalidScope for a gap or an unknown level."""
        convert.scope_to_wire(scope)
        if set(scope) != set(self._ladder[: len(scope)]):
            raise InvalidScope(
                f"the scope names {', '.join(scope)}; levels are given from the top without gaps: "
                f"{' > '.join(self._ladder)}"
            )
        return {level: scope[level] for level in self._ladder[: len(scope)]}

    def write(
        self, scope: Mapping[str, str], drafts: Sequence[MemoryDraft], request_id: str | None
    ) -> tuple[Written, ...]:
        rung = self.rung(scope)
        convert.drafts_to_wire(drafts, convert.scope_to_wire(rung))
        if request_id in self._replies:
            return self._replies[request_id].written
        given = [draft.id for draft in drafts if draft.id]
        taken = next((each for each in given if each in self._memories or given.count(each) > 1), None)
        if taken is not None:
            raise AlreadyExists(f"a memory with the id {taken} exists already")
        self.version += 1
        written = tuple(self._write_one(rung, draft) for draft in drafts)
        if request_id is not None:
            self._replies[request_id] = _Reply(written=written)
        return written

    def _write_one(self, rung: Mapping[str, str], draft: MemoryDraft) -> Written:
        now = datetime.now(UTC)
        said = draft.said_time or now
        made = Memory(
            id=draft.id or str(uuid.uuid4()),
            scope=rung,
            kind=draft.kind,
            state="current",
            text=draft.text,
            key=draft.key,
            confidence=1.0 if draft.confidence is None else draft.confidence,
            importance=0.5 if draft.importance is None else draft.importance,
            event_time=draft.event_time or said,
            said_time=said,
            valid_from=draft.valid_from,
            valid_until=draft.valid_until,
            expires_at=draft.expires_at,
            source=draft.source,
            questions=draft.questions,
            metadata=dict(draft.metadata),
            pinned=draft.pinned,
            created_version=self.version,
            superseded_version=0,
            created_at=now,
        )
        standing = next((each for each in self._statements(rung, draft.key) if each.state == "current"), None)
        superseded: tuple[str, ...] = ()
        if standing is not None:
            older = standing if made.event_time >= standing.event_time else made
            filed = replace(older, state="superseded", superseded_version=self.version)
            if older is made:
                made = filed
            else:
                self._memories[standing.id] = filed
                superseded = (standing.id,)
        self._memories[made.id] = made
        return Written(made.id, self.version, superseded, made.state)

    def _statements(self, rung: Mapping[str, str], key: str) -> list[Memory]:
        return [each for each in self._memories.values() if key and each.key == key and each.scope == rung]

    def get(self, scope: Mapping[str, str], memory_id: str) -> Memory | None:
        found = self._memories.get(memory_id)
        return found if found is not None and _visible(found, self.rung(scope)) else None

    def on_rung(self, scope: Mapping[str, str], *, include_history: bool) -> list[Memory]:
        """Of exactly this rung, oldest first."""
        rung = self.rung(scope)
        return [
            each
            for each in self._memories.values()
            if each.scope == rung and (include_history or each.state == "current")
        ]

    def history(self, scope: Mapping[str, str], key: str) -> tuple[Memory, ...]:
        statements = self._statements(self.rung(scope), key)
        return tuple(sorted(statements, key=lambda each: each.event_time, reverse=True))

    def delete(self, scope: Mapping[str, str], ids: Sequence[str], request_id: str | None) -> Forgotten:
        if request_id in self._replies:
            reply = self._replies[request_id].forgotten
            if reply is not None:
                return reply
        found = {memory_id: self.get(scope, memory_id) for memory_id in dict.fromkeys(ids)}
        deleted = [memory for memory in found.values() if memory is not None]
        for memory in deleted:
            doomed = self._statements(memory.scope, memory.key) if memory.state == "current" else []
            for each in (memory, *doomed):
                self._memories.pop(each.id, None)
        self.version += bool(deleted)
        forgotten = Forgotten(
            self.version,
            tuple(memory.id for memory in deleted),
            tuple(memory_id for memory_id, memory in found.items() if memory is None),
        )
        if request_id is not None:
            self._replies[request_id] = _Reply(forgotten=forgotten)
        return forgotten

    def forget_scope(self, scope: Mapping[str, str], request_id: str | None) -> ForgottenScope:
        rung = self.rung(scope)
        if request_id in self._replies:
            reply = self._replies[request_id].forgotten_scope
            if reply is not None:
                return reply
        doomed = [each.id for each in self._memories.values() if rung.items() <= each.scope.items()]
        for memory_id in doomed:
            del self._memories[memory_id]
        self.version += bool(doomed)
        forgotten = ForgottenScope(self.version, len(doomed))
        if request_id is not None:
            self._replies[request_id] = _Reply(forgotten_scope=forgotten)
        return forgotten

    def visible(self, scope: Mapping[str, str]) -> list[Memory]:
        """Current memories on this rung and the ones above it."""
        rung = self.rung(scope)
        return [each for each in self._memories.values() if each.state == "current" and _visible(each, rung)]

    def search(
        self,
        scope: Mapping[str, str],
        query: str,
        *,
        limit: int,
        min_version: int,
        as_of: datetime | None,
        filter: MemoryFilter | None = None,
    ) -> SearchResult:
        """The best visible memories; ``as_of`` is the moment that validity and recency are counted at."""
        if min_version > self.version:
            raise VersionNotReached(f"version {min_version} is ahead of {self.version}")
        if as_of is not None:
            convert.moment_to_wire(as_of, name="as_of")
        asked = filter or MemoryFilter()
        visible = [memory for memory in self.visible(scope) if asked.admits(memory)]
        now = as_of or datetime.now(UTC)
        query_terms = terms.analyze(query)
        weights = RankingWeights().fused(Fusion.of(query_terms))
        ranked = ranking.rank(_candidates(visible, query_terms), weights, now=now.timestamp(), limit=limit)
        items = tuple(
            ReadItem(
                memory=visible[each.row],
                score=convert.score_from_ranked(each),
                rung=list(visible[each.row].scope)[-1],
                age=convert.age(visible[each.row], now),
            )
            for each in ranked
        )
        return SearchResult(items, self.version, len(visible), truncated=False)


def _visible(memory: Memory, reader: Mapping[str, str]) -> bool:
    """A reader sees its own rung and the ones above it."""
    return memory.scope.items() <= reader.items()


def _candidates(memories: Sequence[Memory], query_terms: Sequence[str]) -> Candidates:
    index = KeywordIndex()
    for memory in memories:
        index.add(keyword.document_impacts(terms.analyze(memory.text)))
    return Candidates(
        ids=[memory.id for memory in memories],
        dense=np.zeros(len(memories), np.float32),
        keyword=index.scores(index.statistics(query_terms).weights(query_terms)),
        importance=np.array([memory.importance for memory in memories], np.float32),
        event_seconds=np.array([memory.event_time.timestamp() for memory in memories], np.float64),
        servable_from=np.array(
            [memory.valid_from.timestamp() if memory.valid_from else -np.inf for memory in memories],
            np.float64,
        ),
        servable_until=np.array([_servable_until(memory) for memory in memories], np.float64),
        depth=np.array([len(memory.scope) for memory in memories], np.int32),
    )


def _servable_until(memory: Memory) -> float:
    ends = [moment.timestamp() for moment in (memory.valid_until, memory.expires_at) if moment is not None]
    return min(ends, default=float("inf"))
