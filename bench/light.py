"""What a light encoder is worth for a model: agreement, and how many complete reads it may answer, on LoCoMo
conversations that no constant was chosen on. Run `python -P -m precall.bench.light --help`.

A read is wrong if its ten lack one of the three that the model's own vector finds first. The error is the one
measured on the made texts, as it is when a server publishes the encoder.
"""

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.locomo import load_conversations
from precall.bench.quality_methods import EncodedSet, score_fast
from precall.bench.quality_sets import FITTED_ON, LabelledSet, conversation_set, sampled
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.choice import ModelChoice
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.light_agreement import Agreement
from precall.engine.encoding.light_encoder import MAP_NAME, LightEncoder, find_small_model
from precall.engine.encoding.light_making import LightMaking
from precall.engine.encoding.light_map import LearnedMap
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.encoding.loading import load_default_encoder, load_encoder
from precall.scoring.approximation import SPREADS, Approximation
from precall.scoring.evidence import SERVED, TOP
from precall.scoring.fusion import Fusion, keyword_share
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights

QUESTIONS: Final = 200
"""Of each conversation, evenly spaced."""
LEADS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""In ``score``s: what `SPREADS` might be."""
_WEIGHTS: Final = RankingWeights()


@dataclass(frozen=True, slots=True)
class InProcess:
    """Implements ``LargeModel`` on an encoder."""

    encoder: Encoder

    @property
    def fingerprint(self) -> str:
        return self.encoder.card.fingerprint

    async def embed(self, texts: Sequence[str], role: TextRole) -> Sequence[NDArray[np.float32] | None]:
        batch = self.encoder.encode([self.encoder.tokenize(text, role, truncate=True) for text in texts])
        return [None if row in batch.errors else vector for row, vector in enumerate(batch.vectors)]


@dataclass(frozen=True, slots=True)
class Read:
    """``lead``: of the third over the eleventh, in ``score``s. ``right``: the model's three are there."""

    lead: float
    right: bool


@dataclass(frozen=True, slots=True)
class LightConversation:
    """One conversation, its questions by the model's own vectors and by the light ones."""

    exact: EncodedSet
    light: NDArray[np.float32]

    def agreement(self) -> Agreement:
        return Agreement.measured(self.light, self.exact.queries, self.exact.memories)

    def reads(self, approximation: Approximation) -> Iterator[Read]:
        """As a cache that holds the whole conversation reads; all memories equally important and old."""
        by_model = score_fast(self.exact)
        by_light = score_fast(replace(self.exact, queries=self.light))
        for query, wanted, found in zip(self.exact.labelled.queries, by_model, by_light, strict=True):
            terms = QueryTerms.of(query.text)
            fusion = Fusion.of(terms.terms, keyword_share(terms, self.exact.scripts))
            one = approximation.doubt(_WEIGHTS.fused(fusion)) / SPREADS
            order = np.argsort(-found, kind="stable")
            lead = _WEIGHTS.relevance * float(found[order[TOP - 1]] - found[order[SERVED]])
            best = np.argsort(-wanted, kind="stable")[:TOP]
            yield Read(lead / one if one else math.inf, bool(np.isin(best, order[:SERVED]).all()))


def conversations(data: Path) -> list[LabelledSet]:
    """Those that are held out, with some of their questions."""
    held_out = [each for each in load_conversations(data / "locomo") if each.id not in FITTED_ON]
    return [sampled(conversation_set(each), QUESTIONS) for each in held_out]


def report(parts: Sequence[LightConversation], made: LightEncoder) -> Iterator[str]:
    """The table's lines."""
    measured = made.agreement
    yield f"{'':<28}{'cosine':>8}{'top ten':>9}{'distance':>10}{'score':>8}"
    named = [("made texts, held out", measured), *((p.exact.labelled.name, p.agreement()) for p in parts)]
    for name, each in named:
        yield (
            f"{name[:27]:<28}{each.cosine:>8.3f}{each.top_ten_overlap:>9.3f}{each.distance:>10.3f}"
            f"{each.score:>8.4f}"
        )
    approximation = Approximation(measured.distance, measured.score)
    reads = [read for part in parts for read in part.reads(approximation)]
    yield f"\n{len(reads)} reads of complete caches\n{'lead':>6}{'answered':>10}{'wrong':>8}   (of all)"
    for lead in LEADS:
        answered = [read for read in reads if read.lead >= lead]
        wrong = sum(not read.right for read in answered)
        mark = "  <- SPREADS" if lead == SPREADS else ""
        yield f"{lead:>6}{len(answered) / len(reads):>10.3f}{wrong / len(reads):>8.4f}{mark}"


def time_one(small: Encoder, learned: LearnedMap, texts: Iterable[str]) -> float:
    """Median milliseconds from a question to its light vector."""
    times = []
    for text in texts:
        started = time.perf_counter()
        learned(small.encode([small.tokenize(text, TextRole.QUERY, truncate=True)]).vectors)
        times.append(1_000 * (time.perf_counter() - started))
    return statistics.median(times)


async def measure(encoder: Encoder, data: Path, vectors: Path, settings: LightSettings) -> None:
    """Print the table for one model."""
    small = load_default_encoder(threads=1).encoder
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        making = LightMaking(InProcess(encoder), find_small_model(), Path(folder), settings)
        made = await making.make()
        seconds = time.perf_counter() - started
        learned = LearnedMap(np.load(made.folder / MAP_NAME))
    exact, first = VectorCache(encoder, vectors), VectorCache(small, vectors)
    parts = []
    for labelled in conversations(data):
        texts = [query.text for query in labelled.queries]
        queries = exact.vectors(texts, TextRole.QUERY)
        memories = exact.vectors(labelled.memories, TextRole.DOCUMENT)
        encoded = EncodedSet(labelled, queries, memories, encoder.card.scripts)
        parts.append(LightConversation(encoded, learned(first.vectors(texts, TextRole.QUERY))))
    size = sum(file.size_bytes for _, file in made.files) / 1e6
    one = time_one(small, learned, [query.text for query in parts[0].exact.labelled.queries[:100]])
    print(
        f"{encoder.card.name}, {encoder.card.dimension} dimensions, {settings.fitted} texts, {seconds:.0f} s"
    )
    print(f"{size:.1f} MB, of them {made.map.size_bytes / 1e6:.2f} the map; a query {one:.1f} ms\n")
    print("\n".join(report(parts, made)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="as `precall serve --model`")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds locomo")
    parser.add_argument("--vectors", type=Path, required=True, help="folder to keep vectors in")
    parser.add_argument("--texts", type=int, default=LightSettings().fitted, help="made texts to fit on")
    chosen = parser.parse_args()
    settings = LightSettings(fitted=chosen.texts, least_fitted=min(chosen.texts, 1_000), seconds=math.inf)
    encoder = load_encoder(ModelChoice(model=chosen.model)).encoder
    asyncio.run(measure(encoder, chosen.data, chosen.vectors, settings))


if __name__ == "__main__":
    main()
