"""What a session may believe of the rungs that it sees: which it holds whole, what stands on the others."""

from collections.abc import Collection, Sequence

from precall.engine.anticipation.events import RungClaim
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder, Rung
from precall.scoring.keyword import Statistics


class RungClaims:
    """``complete``: rungs of which the session holds every memory. ``incomplete``: those that were so till a
    write was left out.
    """

    def __init__(self, partitions: Sequence[Partition], ladder: Ladder) -> None:
        """``partitions``: of the rungs that the session sees, the narrowest first."""
        self._partitions = partitions
        self._ladder = ladder
        self._told_vocabularies: set[Rung] = set()
        self.complete: set[Rung] = set()
        self.incomplete: set[Rung] = set()

    @property
    def wholly_complete(self) -> bool:
        return len(self.complete) == len(self._partitions)

    def lose(self, rungs: Collection[Rung]) -> None:
        """Something was written there that the session does not hold."""
        self.incomplete |= self.complete.intersection(rungs)
        self.complete.difference_update(rungs)

    def stated(self, terms: Collection[str]) -> list[RungClaim]:
        """What is true of every visible rung now.

        A complete rung the client counts for itself. Of the others it is told how often the given terms stand
        there, be it not at all, whichever rung brought them up: a term's weight is that of all visible rungs
        together, and one whose last memory went must not keep the count that was told before. The first time
        it is told as well which terms there are; of later ones it hears as they are written.
        """
        return [
            RungClaim(self._ladder.level_of(partition.rung), True, len(partition), None)
            if partition.rung in self.complete
            else RungClaim(
                level=self._ladder.level_of(partition.rung),
                complete=False,
                memories=len(partition),
                statistics=_counted(partition, terms),
                vocabulary=self._untold_vocabulary(partition),
            )
            for partition in self._partitions
        ]

    def _untold_vocabulary(self, partition: Partition) -> bytes:
        if partition.rung in self._told_vocabularies:
            return b""
        self._told_vocabularies.add(partition.rung)
        return partition.vocabulary()


def _counted(partition: Partition, terms: Collection[str]) -> Statistics:
    """Of these terms, those that stand nowhere among them."""
    counted = partition.statistics(terms)
    return Statistics(counted.documents, dict.fromkeys(terms, 0) | counted.frequencies)
