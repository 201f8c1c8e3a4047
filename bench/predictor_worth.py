"""What each predictor is worth: reads whose first three results a session holds, and items pushed for it.

python -P -m precall.bench.predictor_worth --data ../shared/data

The rung and the conversations of `coverage_corpus`, those alone that nothing was fitted on. Each
configuration plays the same conversations through the server's own predictors and budget.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from precall.bench.coverage_corpus import Exchange, SharedCorpus, indexed_memories
from precall.bench.locomo import load_conversations
from precall.bench.predictor_trial import StandingClock, TextTable, Trial, Worth
from precall.bench.quality import VECTORS_FOLDER
from precall.bench.quality_vectors import VectorCache
from precall.engine.anticipation.call_start import CallStart
from precall.engine.anticipation.co_use import CoUse
from precall.engine.anticipation.neighbours import Neighbours
from precall.engine.anticipation.recent_turns import RecentTurns
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory, Source

_A_DAY: Final = 86_400.0
_CONFIGURATIONS: Final = (
    (RecentTurns.name,),
    (RecentTurns.name, Neighbours.name),
    (RecentTurns.name, CoUse.name),
    (RecentTurns.name, CallStart.name),
    (RecentTurns.name, Neighbours.name, CoUse.name, CallStart.name),
)


@dataclass(frozen=True, slots=True)
class Case:
    """Conversations of one kind, and how much a session may hold in them. ``before``: those that others had
    first, of which nothing is counted.
    """

    name: str
    items: int
    exchanges: Sequence[Exchange]
    before: Sequence[Exchange] = ()


class Stage:
    """The rung with its memories, and the vectors of all that is said about it."""

    def __init__(self, data: Path, vectors: Path) -> None:
        """Raises what the loaders of the sets and of the model raise."""
        encoder = load_default_encoder().encoder
        cache = VectorCache(encoder, vectors)
        self.corpus = corpus = SharedCorpus(data)
        texts = corpus.asked_texts()
        asked = cache.vectors(texts, TextRole.QUERY)
        self.model = TextTable(encoder.card, dict(zip(texts, asked, strict=True)))
        rows = cache.vectors(corpus.texts, TextRole.DOCUMENT).astype("float16")
        memories = _with_sources(list(indexed_memories(corpus, rows)), data)
        self.partition = Partition(memories[0].memory.rung, encoder.card.dimension, PartitionSettings())
        self.partition.apply(added=memories)
        latest = max(indexed.memory.event_time.timestamp() for indexed in memories)
        self.clock = StandingClock(latest + _A_DAY)

    def cases(self, every: int) -> list[Case]:
        """One in ``every`` held-out conversations whose turns all stand in memory."""
        held_out = [each for each in self.corpus.exchanges if not each.fitted and not each.unsaid]
        typed = [each for each in held_out if each.typed][::every]
        asked = [each for each in held_out if not each.typed and each.utterances[0].partials][::every]
        spoken = [each for each in held_out if not each.typed and not each.utterances[0].partials][::every]
        return [
            *(Case("typed turns", items, typed) for items in (256, 1_024)),
            *(Case("spoken questions", items, asked) for items in (256, 1_024)),
            Case("spoken turns", 256, spoken),
            # The best case of learning: others have asked the same in the same order.
            Case("typed questions asked before", 256, [_typed(each) for each in asked], asked),
        ]

    async def worth(self, case: Case, predictors: Sequence[str]) -> Worth:
        trial = Trial(self.partition, self.model, items=case.items, predictors=predictors, clock=self.clock)
        for number, exchange in enumerate(map(_typed, case.before)):
            await trial.play(exchange, f"earlier session {number}")
        trial.forget_counts()
        for number, exchange in enumerate(case.exchanges):
            await trial.play(exchange, f"session {number}")
        return trial.worth


def _typed(exchange: Exchange) -> Exchange:
    """The same without partial transcripts: only what was said before can predict."""
    return replace(exchange, utterances=tuple(replace(each, partials=()) for each in exchange.utterances))


def _with_sources(memories: list[IndexedMemory], data: Path) -> list[IndexedMemory]:
    """LoCoMo's turns, which come first, with the conversations and moments in which they were said."""
    row = 0
    for conversation in load_conversations(data / "locomo"):
        for turn in conversation.turns:
            said = replace(
                memories[row].memory,
                event_time=turn.said_time,
                source=Source(conversation_id=conversation.id),
            )
            memories[row] = replace(memories[row], memory=said)
            row += 1
    return memories


def report(case: Case, predictors: Sequence[str], worth: Worth, seconds: float) -> str:
    """One line a configuration, one more for each of its predictors."""
    reads = max(worth.reads, 1)
    lines = [
        f"{case.name}, {case.items} items, {' + '.join(predictors)}: {worth.reads} reads, first three held "
        f"{worth.held_top / reads:.3f}, under a coverage {worth.covered / reads:.3f} ({seconds:.0f} s)"
    ]
    for predictor in predictors:
        used, wasted = worth.used[predictor], worth.wasted[predictor]
        lines.append(
            f"    {predictor}: pushed {worth.pushed_items[predictor] / reads:.1f} a read, "
            f"{used / max(used + wasted, 1):.3f} of them used, "
            f"had a part in {worth.needed[predictor] / max(worth.held_top, 1):.3f} of these reads"
        )
    return "\n".join(lines)


async def measure(stage: Stage, every: int, only: str) -> None:
    """``only``: cases whose name holds it."""
    for case in (case for case in stage.cases(every) if only in case.name):
        for predictors in _CONFIGURATIONS:
            begin = time.perf_counter()
            worth = await stage.worth(case, predictors)
            print(report(case, predictors, worth, time.perf_counter() - begin), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with locomo, scifact and xquad")
    parser.add_argument("--vectors", type=Path, default=VECTORS_FOLDER, help="folder to keep vectors in")
    parser.add_argument("--every", type=int, default=3, help="play one in so many conversations")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    asyncio.run(measure(Stage(options.data, options.vectors), options.every, options.only))


if __name__ == "__main__":
    main()
