"""The memories behind a fake client: the contract's rules without a server, a disk or a model."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from precall.client import convert, fake_search
from precall.client.errors import AlreadyExists, InvalidScope, NotFound, VersionNotReached
from precall.client.fake_destruction import doomed
from precall.client.fake_limits import check_limits
from precall.client.filter import MemoryFilter
from precall.client.memory import Forgotten, ForgottenScope, Memory, MemoryDraft, Written
from precall.client.read import SearchResult

DEFAULT_LADDER: Final = ("customer", "user")


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a request id was answered with."""

    written: tuple[Written, ...] = ()
    forgotten: Forgotten | None = None
    forgotten_scope: ForgottenScope | None = None


class FakeStore:
    """Scopes are checked against one ladder; keyed memories supersede by event time; a repeated request id
    changes nothing; what has expired is as good as destroyed. Search scores keywords, importance and recency
    with the server's formulas; there is no model, so the dense part is 0.
    """

    def __init__(self, ladder: Sequence[str] = DEFAULT_LADDER) -> None:
        self.version = 0
        self._ladder = tuple(ladder)
        self._memories: dict[str, Memory] = {}  # in order of arrival
        self._superseded_at: dict[str, datetime] = {}
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
        """All or none. Raises AlreadyExists for an id that is taken, NotFound for an origin that is gone."""
        rung = self.rung(scope)
        convert.drafts_to_wire(drafts, convert.scope_to_wire(rung))
        for draft in drafts:
            check_limits(draft)
        if request_id in self._replies:
            return self._replies[request_id].written
        made = [replace(draft, id=draft.id or str(uuid.uuid4())) for draft in drafts]
        self._check_ids(made)
        self.version += 1
        written = tuple(self._write_one(rung, draft) for draft in made)
        if request_id is not None:
            self._replies[request_id] = _Reply(written=written)
        return written

    def _check_ids(self, drafts: Sequence[MemoryDraft]) -> None:
        known = set(self._memories)
        for draft in drafts:
            if draft.id in known:
                raise AlreadyExists(f"a memory with the id {draft.id} exists already")
            for origin in draft.source.memory_ids:
                if origin not in known:
                    raise NotFound(f"it is derived from {origin}, which does not exist (any more)")
            known.add(draft.id)

    def _write_one(self, rung: Mapping[str, str], draft: MemoryDraft) -> Written:
        now = datetime.now(UTC)
        said = draft.said_time or now
        made = Memory(
            id=draft.id,
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
        self._memories[made.id] = made
        if standing is None:
            return Written(made.id, self.version)
        older, newer = (standing, made) if made.event_time >= standing.event_time else (made, standing)
        self._memories[older.id] = replace(older, state="superseded", superseded_version=self.version)
        self._superseded_at[older.id] = now
        superseded = (standing.id,) if newer is made else ()
        return Written(made.id, self.version, superseded, self._memories[made.id].state)

    def _statements(self, rung: Mapping[str, str], key: str) -> list[Memory]:
        return [each for each in self._memories.values() if key and each.key == key and each.scope == rung]

    def get(self, scope: Mapping[str, str], memory_id: str) -> Memory | None:
        """As a reader there sees it, history included."""
        found = self._memories.get(memory_id)
        rung = self.rung(scope)
        return found if found is not None and _is_visible(found, rung) and not _expired(found) else None

    def on_rung(
        self, scope: Mapping[str, str], *, include_history: bool, as_of: datetime | None = None
    ) -> list[Memory]:
        """Of exactly this rung, oldest first; ``as_of``: as it stood then, less what was destroyed since."""
        rung = self.rung(scope)
        standing = self._standing(as_of, include_history=include_history)
        return [each for each in standing if each.scope == rung]

    def history(self, scope: Mapping[str, str], key: str) -> tuple[Memory, ...]:
        """Every statement under a key of this rung, the newest event first."""
        statements = self._statements(self.rung(scope), key)
        return tuple(sorted(statements, key=lambda each: each.event_time, reverse=True))

    def delete(self, scope: Mapping[str, str], ids: Sequence[str], request_id: str | None) -> Forgotten:
        """Destroy what a reader there sees, and what hangs on it."""
        if request_id in self._replies:
            reply = self._replies[request_id].forgotten
            if reply is not None:
                return reply
        found = {memory_id: self.get(scope, memory_id) for memory_id in dict.fromkeys(ids)}
        deleted = self._destroy([memory.id for memory in found.values() if memory is not None])
        missing = tuple(memory_id for memory_id, memory in found.items() if memory is None)
        forgotten = Forgotten(self.version, deleted, missing)
        if request_id is not None:
            self._replies[request_id] = _Reply(forgotten=forgotten)
        return forgotten

    def forget_scope(self, scope: Mapping[str, str], request_id: str | None) -> ForgottenScope:
        """Destroy what stands on a rung and below it, and what hangs on it."""
        rung = self.rung(scope)
        if request_id in self._replies:
            reply = self._replies[request_id].forgotten_scope
            if reply is not None:
                return reply
        below = [each.id for each in self._memories.values() if rung.items() <= each.scope.items()]
        forgotten = ForgottenScope(version=self.version + bool(below), deleted=len(self._destroy(below)))
        if request_id is not None:
            self._replies[request_id] = _Reply(forgotten_scope=forgotten)
        return forgotten

    def _destroy(self, named: Sequence[str]) -> tuple[str, ...]:
        going = doomed(self._memories, named)
        for memory_id in going:
            del self._memories[memory_id]
            self._superseded_at.pop(memory_id, None)
        self.version += bool(going)
        return tuple(going)

    def visible(self, scope: Mapping[str, str], as_of: datetime | None = None) -> list[Memory]:
        """Current memories on this rung and the ones above it, in order of arrival."""
        rung = self.rung(scope)
        return [each for each in self._standing(as_of) if _is_visible(each, rung)]

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
        """The best visible memories. Raises VersionNotReached."""
        if min_version > self.version:
            raise VersionNotReached(f"version {min_version} is ahead of {self.version}")
        if as_of is not None:
            convert.moment_to_wire(as_of, name="as_of")
        asked = filter or MemoryFilter()
        visible = self.visible(scope, as_of)
        items = fake_search.search(visible, query, filter=asked, limit=limit, now=as_of or datetime.now(UTC))
        return SearchResult(items, self.version, sum(map(asked.admits, visible)), truncated=False)

    def _standing(self, as_of: datetime | None, *, include_history: bool = False) -> list[Memory]:
        """What has not expired: current, or current at a moment; or history as well, up to that moment."""
        memories = [each for each in self._memories.values() if not _expired(each)]
        if as_of is not None:
            memories = [self._as_it_stood(each, as_of) for each in memories if each.created_at <= as_of]
        return [each for each in memories if include_history or each.state == "current"]

    def _as_it_stood(self, memory: Memory, moment: datetime) -> Memory:
        superseded_at = self._superseded_at.get(memory.id)
        if superseded_at is None or superseded_at <= moment:
            return memory
        return replace(memory, state="current", superseded_version=0)


def _is_visible(memory: Memory, reader: Mapping[str, str]) -> bool:
    """A reader sees its own rung and the ones above it."""
    return memory.scope.items() <= reader.items()


def _expired(memory: Memory) -> bool:
    return memory.expires_at is not None and memory.expires_at <= datetime.now(UTC)
