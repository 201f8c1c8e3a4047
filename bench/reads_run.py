"""How to run `precall bench reads`, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from precall.bench.reads_report import ReadRecord, ReadsReport


class Profile(Enum):
    """PERSONAL: each conversation is one user, whose memories are small enough to be held whole. SHARED: all
    that is known stands in one customer rung, of which a session holds a part.
    """

    PERSONAL = "personal"
    SHARED = "shared"


_SPEEDS: Final = {Profile.PERSONAL: 10.0, Profile.SHARED: 1.0}
_SHARED_ITEMS: Final = {False: 256, True: 1_024}


@dataclass(frozen=True, slots=True)
class ReadsRun:
    """How to run.

    speed: compresses the speaker's clock, which leaves a push less time, never more. None: 10 for PERSONAL,
    where nothing is predicted; life's for SHARED, where a push is due before the next word.
    typed: no partial transcripts come, as from a keyboard; the words take as long.
    max_items: that a session may hold. None: the client's default for PERSONAL; for SHARED 256, typed 1,024.
    max_questions: of each conversation; for SHARED the reads of each kind.
    max_reads: of SHARED, in all, each kind in proportion.
    sessions_at_once: conversations that go on side by side, of SHARED.
    server_arguments: go to `precall serve` as they are.
    """

    rtt_ms: float = 40.0
    profile: Profile = Profile.PERSONAL
    typed: bool = False
    speed: float | None = None
    max_items: int | None = None
    max_questions: int | None = None
    max_reads: int | None = None
    sessions_at_once: int = 8
    server_arguments: Sequence[str] = ()

    @property
    def pace(self) -> float:
        """How many times faster than life people speak."""
        return self.speed or _SPEEDS[self.profile]

    @property
    def items_held(self) -> int | None:
        """None: the client's own default."""
        if self.max_items is None and self.profile is Profile.SHARED:
            return _SHARED_ITEMS[self.typed]
        return self.max_items

    @property
    def case(self) -> str:
        """Names the run in the table of results; a run as ever is named by its server's arguments alone."""
        parts = [] if self.profile is Profile.PERSONAL else [self.profile.value]
        parts += ["typed"] if self.typed else []
        parts += [f"{self.items_held} items"] if self.items_held is not None else []
        parts += [f"speed {self.speed:g}"] if self.speed is not None else []
        return " ".join([*parts, *self.server_arguments]) or "default"


@dataclass(frozen=True, slots=True)
class ReadsOutcome:
    report: ReadsReport
    records: Sequence[ReadRecord]
