"""How often a tenant's memories were used soon after one another, with counts that fade."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from precall.engine.memory.ladder import Rung

Place = tuple[Rung, str]
"""A memory as one rung's readers know it."""


@dataclass(slots=True)
class _Uses:
    """Of one memory: how often it was used at all, and what then followed; scaled, see `FollowCounts`."""

    total: float = 0.0
    followers: dict[str, float] = field(default_factory=dict)


class FollowCounts:
    """Memory -> how often it was used, and followed by which others, for each rung by itself.

    A pair is counted on the narrower of its memories' two rungs, and asked for from that rung and those below
    it: what one user's conversations tell of that user's memories is told to no other user.

    Counts halve in ``half_life_seconds``. A use at time t counts 2 ** (t / half life), and a sum of such uses
    is divided by the same of the time at which it is asked for: so no count is touched to let it fade
    (forward decay: Cormode et al., ICDE 2009). Scaled counts reach infinity after a thousand half-lives.

    Bounded: ``memories_kept``, of which the longest unused go, and ``followers_kept`` of each, of which the
    rarest go. Invariant: an id is found here only until `forget`.
    """

    def __init__(self, *, memories_kept: int, followers_kept: int, half_life_seconds: float) -> None:
        self._memories_kept = memories_kept
        self._followers_kept = followers_kept
        self._half_life = half_life_seconds
        self._began: float | None = None
        self._uses: OrderedDict[Place, _Uses] = OrderedDict()  # the longest unused first
        self._mentions: dict[str, set[Place]] = {}

    def __len__(self) -> int:
        """Memories of which something is known."""
        return len(self._uses)

    def __contains__(self, memory_id: str) -> bool:
        """Whether the id stands anywhere in here."""
        return memory_id in self._mentions

    def used(self, memory: Place, *, now: float) -> None:
        """The memory was used once more, in a conversation on this rung or below it. ``now``: seconds."""
        self._of(memory).total += self._scale(now)

    def followed(self, earlier: Place, later: str, *, now: float, share: float = 1.0) -> None:
        """Count ``share`` of a use of ``later`` after the other, on a rung from which both can be seen."""
        followers = self._of(earlier).followers
        if later not in followers and len(followers) >= self._followers_kept:
            rarest = min(followers, key=followers.__getitem__)
            del followers[rarest]
            self._unmention(rarest, earlier)
        followers[later] = followers.get(later, 0.0) + share * self._scale(now)
        self._mentions.setdefault(later, set()).add(earlier)

    def expected(self, memories: Collection[Place], *, now: float) -> dict[str, float]:
        """Id -> how likely its use follows that of any of these, as far as is known; unordered.

        Of n faded uses of which m were followed by it: m / (n + 1), so that a single one says little. What
        several of them lead to is added up.
        """
        scale = self._scale(now)
        likely: dict[str, float] = {}
        for place in memories:
            if (uses := self._uses.get(place)) is not None:
                for later, count in uses.followers.items():
                    likely[later] = likely.get(later, 0.0) + count / (uses.total + scale)
        return likely

    def forget(self, memory_ids: Collection[str]) -> None:
        """Nothing of these ids stays."""
        for memory_id in memory_ids:
            for place in self._mentions.pop(memory_id, ()):
                if (uses := self._uses.get(place)) is None:
                    continue
                if place[1] == memory_id:
                    self._drop(place)
                else:
                    uses.followers.pop(memory_id, None)

    def shed(self, count: int) -> None:
        """Drop the ``count`` memories that were not used for longest."""
        for place in list(self._uses)[:count]:
            self._drop(place)

    def _scale(self, now: float) -> float:
        if self._began is None:
            self._began = now
        scale: float = 2.0 ** ((now - self._began) / self._half_life)
        return scale

    def _of(self, place: Place) -> _Uses:
        uses = self._uses.get(place)
        if uses is None:
            self.shed(len(self._uses) - self._memories_kept + 1)
            uses = self._uses[place] = _Uses()
            self._mentions.setdefault(place[1], set()).add(place)
        self._uses.move_to_end(place)
        return uses

    def _drop(self, place: Place) -> None:
        uses = self._uses.pop(place)
        for later in uses.followers:
            self._unmention(later, place)
        self._unmention(place[1], place)

    def _unmention(self, memory_id: str, place: Place) -> None:
        places = self._mentions.get(memory_id)
        if places is not None:
            places.discard(place)
            if not places:
                del self._mentions[memory_id]

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        mentions: dict[str, set[Place]] = {}
        for place, uses in self._uses.items():
            assert len(uses.followers) <= self._followers_kept
            for memory_id in (place[1], *uses.followers):
                mentions.setdefault(memory_id, set()).add(place)
        assert mentions == self._mentions
        assert len(self._uses) <= self._memories_kept


def best(likely: dict[str, float], *, above: float, limit: int) -> Sequence[str]:
    """The ids of `FollowCounts.expected` with more than ``above``, the likeliest first."""
    ordered = sorted(likely.items(), key=lambda each: (-each[1], each[0]))
    return [memory_id for memory_id, chance in ordered[:limit] if chance > above]
