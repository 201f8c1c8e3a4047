"""How far a tenant has come on its way from one model to another."""

from dataclasses import dataclass
from enum import Enum


class MigrationState(Enum):
    BACKFILLING = "backfilling"
    """The old model serves; the new one's vectors are being made, of new memories too."""

    SWITCHED = "switched"
    """The new model serves; the old one's vectors are kept, of new memories too: there is a way back."""

    FINISHING = "finishing"
    """The new model serves, and there is no way back: the old one's vectors are being replaced."""

    FINISHED = "finished"
    """The new model serves; nothing is left of the old one."""

    ROLLED_BACK = "rolled back"
    """The old model serves; the new one's vectors are being removed, or are gone."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model whose vectors stand in a tenant's file. ``dimension``: of these."""

    fingerprint: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Migration:
    """``done`` of ``total`` memories, history included: those with a vector of the new model (all of them
    once it is switched to), while it is FINISHING those whose old vector is replaced, and once it is
    ROLLED_BACK those whose new vector is still to be removed.

    ``overlap_at_10``: the mean share of the ten memories nearest to a query that both models agree on, over
    ``compared_queries``; None until they were compared, and where too few memories stand for that.
    """

    from_fingerprint: str
    to_fingerprint: str
    from_dimension: int
    to_dimension: int
    state: MigrationState
    done: int
    total: int
    overlap_at_10: float | None = None
    compared_queries: int = 0

    @property
    def ready(self) -> bool:
        """Whether it can be switched."""
        return self.state is MigrationState.BACKFILLING and self.done == self.total

    @property
    def stage(self) -> str:
        """The state in a word, `ready` being one."""
        return "ready" if self.ready else self.state.value

    @property
    def serving_fingerprint(self) -> str:
        """Of the model that answers searches now."""
        is_old = self.state in (MigrationState.BACKFILLING, MigrationState.ROLLED_BACK)
        return self.from_fingerprint if is_old else self.to_fingerprint
