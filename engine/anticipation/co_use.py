"""The predictor that learns: what followed the memories that were just used, in earlier conversations."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.follow_counts import FollowCounts, best
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.clock import Clock
from precall.engine.memory.ladder import Rung

_FOUND_LOOKED_AT: Final = 5
_LEARNED: Final = 8
"""Memories of one answer, the most important ones: each is counted with each."""

_TOGETHER: Final = 0.5
"""What a use in the same answer counts beside one in the next: for that answer the guess comes too late."""

_SHED: Final = 8
"""When all that is known outgrows its bound, the tenant that has most of it loses one memory in so many."""


@dataclass(frozen=True, slots=True)
class CoUseSettings:
    """``tenant_memories`` and ``memories``: of which followers are known, of a tenant and in all."""

    tenant_memories: int = 8_192
    memories: int = 65_536
    followers: int = 16
    half_life_seconds: float = 30 * 86_400.0
    items: int = 32
    least_chance: float = 0.1
    worth: float = 0.95


class CoUse:
    """Counts which memories follow which, by the ids that agents report as used, and proposes the followers.

    A tenant's counts are its own, and inside it each rung's: see `FollowCounts`. They are in memory alone: a
    server that starts knows nothing yet. What is deleted, superseded or expired leaves nothing here.
    """

    name = "co_use"
    cues = Cue.USED | Cue.FOUND

    def __init__(self, clock: Clock, settings: CoUseSettings | None = None) -> None:
        self._clock = clock
        self._settings = settings or CoUseSettings()
        self._tenants: dict[str, FollowCounts] = {}

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        counts = self._tenants.get(situation.tenant_id)
        if counts is None:
            return ()
        conversation, settings = situation.conversation, self._settings
        used = conversation.used[0] if conversation.used else ()
        seeds = dict.fromkeys([*used, *conversation.found_ids[:_FOUND_LOOKED_AT]])
        places = [(partition.rung, memory_id) for memory_id in seeds for partition in situation.partitions]
        likely = counts.expected(places, now=self._clock.monotonic())
        ids = best(
            {memory_id: chance for memory_id, chance in likely.items() if memory_id not in seeds},
            above=settings.least_chance,
            limit=settings.items,
        )
        return [Proposal(self.name, ids, situation.version, worth=settings.worth)] if ids else ()

    def learn(self, situation: Situation) -> None:
        """The last answer's memories follow those of the answer before, and one another."""
        answers = [_seen(situation, ids) for ids in situation.conversation.used[:2]]
        if not answers or not answers[0]:
            return
        latest, before = answers[0], answers[1] if len(answers) > 1 else {}
        counts = self._counts(situation.tenant_id)
        now = self._clock.monotonic()
        for memory_id, rung in latest.items():
            for partition in situation.partitions:
                if rung.is_visible_from(partition.rung):
                    counts.used((partition.rung, memory_id), now=now)
        for earlier, its_rung in (latest | before).items():
            share = 1.0 if earlier in before else _TOGETHER
            for later, rung in latest.items():
                if later != earlier:
                    narrower = max(its_rung, rung, key=lambda each: each.depth)
                    counts.followed((narrower, earlier), later, now=now, share=share)
        self._keep_bound()

    def forget(self, tenant_id: str, memory_ids: Collection[str]) -> None:
        if (counts := self._tenants.get(tenant_id)) is not None:
            counts.forget(memory_ids)
            if not len(counts):
                del self._tenants[tenant_id]

    def forget_tenant(self, tenant_id: str) -> None:
        self._tenants.pop(tenant_id, None)

    def knows(self, tenant_id: str, memory_id: str) -> bool:
        """Whether anything of the memory stands here; for tests."""
        return tenant_id in self._tenants and memory_id in self._tenants[tenant_id]

    def _counts(self, tenant_id: str) -> FollowCounts:
        settings = self._settings
        return self._tenants.setdefault(
            tenant_id,
            FollowCounts(
                memories_kept=settings.tenant_memories,
                followers_kept=settings.followers,
                half_life_seconds=settings.half_life_seconds,
            ),
        )

    def _keep_bound(self) -> None:
        while sum(map(len, self._tenants.values())) > self._settings.memories:
            most = max(self._tenants.values(), key=len)
            most.shed(max(len(most) // _SHED, 1))

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        for counts in self._tenants.values():
            counts.check_integrity()
        assert sum(map(len, self._tenants.values())) <= self._settings.memories


def _seen(situation: Situation, memory_ids: Sequence[str]) -> dict[str, Rung]:
    """Id -> rung, of those that stand where the session may see them. An agent may name any others."""
    found = ((memory_id, situation.partition_of(memory_id)) for memory_id in memory_ids[:_LEARNED])
    return {memory_id: partition.rung for memory_id, partition in found if partition is not None}
