"""One customer rung of all that is known, kept in a folder between runs, and the conversations about it.

The corpus is `precall.bench.coverage_corpus`'s; of it only what nothing was fitted on is asked.
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from precall.bench.coverage_corpus import KNOWN_TURNS, SAID, Exchange, SharedCorpus, Utterance
from precall.bench.locomo import load_conversations
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.encoder import TextRole
from precall.engine.engine import Engine, EngineSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import MemoryKind, NewMemory, Source
from precall.engine.memory.registry import TENANTS_FOLDER
from precall.engine.preparing import GivenVector
from precall.scoring.version import SCORING_VERSION

SCOPE: Final = {"customer": "everything"}
TENANT: Final = "bench"
HELD_OUT: Final = (
    "LoCoMo without 26 and 30; SciFact claims_validation; XQuAD questions of every second paragraph. "
    "The judgement is fitted on the rest."
)
LEAST_MEMORIES: Final = 8_000
"""So many stay in the rung when ends of dialogues are left out of it."""

_RUNG: Final = Rung((SCOPE["customer"],))
_WRITE_BATCH: Final = 500
_IDS: Final = uuid.UUID("6b7a1c52-92a3-4f0e-8f0b-5d0a4be0c9c1")


@dataclass(frozen=True, slots=True)
class SharedRung:
    """``memories``: their ids are `memory_id` of the row that each has in the corpus.

    ``exchanges``: held out, mixed evenly. ``unsaid``: rows of the corpus that are no memories, since an
    exchange says them for the first time. ``texts``: the corpus, a text a row.
    """

    memories: tuple[NewMemory, ...]
    exchanges: tuple[Exchange, ...]
    unsaid: frozenset[int]
    texts: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Names the memories: equal for equal ones."""
        told = hashlib.sha256()
        for each in self.memories:
            told.update(repr((each.id, each.kind, each.text, each.event_time, each.source)).encode())
        return told.hexdigest()[:16]

    @property
    def reads(self) -> int:
        return sum(exchange.reads for exchange in self.exchanges)


def memory_id(row: int) -> str:
    return str(uuid.uuid5(_IDS, str(row)))


def shared_rung(data: Path, *, typed: bool, most: int | None = None, in_all: int | None = None) -> SharedRung:
    """``data``: a folder that holds locomo, scifact and xquad. ``most``: reads of each kind, evenly spaced;
    ``in_all``: of all kinds together, about, each in proportion to what there is of it.

    Typed are the dialogues alone: nothing that was said before predicts a question out of the blue. The ends
    of some dialogues are in no memory, and their turns are read as they are said first. Raises the loaders'
    errors.
    """
    corpus = SharedCorpus(data)
    held_out = [exchange for exchange in corpus.exchanges if not exchange.fitted and exchange.typed == typed]
    news = _last_of_dialogues(held_out, most_rows=len(corpus.texts) - LEAST_MEMORIES)
    unsaid = frozenset(row for exchange in news for row in exchange.unsaid)
    # The same turns as known ones would be told by nothing in the rung.
    said_first = {exchange.utterances[-1].text for exchange in news}
    others = [
        exchange
        for exchange in held_out
        if not exchange.unsaid
        and exchange.utterances[-1].text not in said_first
        and (not typed or _kind(exchange) == KNOWN_TURNS)
    ]
    kinds: dict[str, list[Exchange]] = {}
    for exchange in (*news, *others):
        kinds.setdefault(_kind(exchange), []).append(_answerable(exchange, unsaid))
    reads = {kind: sum(exchange.reads for exchange in each) for kind, each in kinds.items()}
    chosen = []
    for kind, exchanges in kinds.items():
        share = most if in_all is None else max(1, round(in_all * reads[kind] / sum(reads.values())))
        chosen.append(_evenly(exchanges, share))
    memories = tuple(each for row, each in enumerate(_memories(corpus, data)) if row not in unsaid)
    return SharedRung(memories, tuple(_mixed(chosen)), unsaid, tuple(corpus.texts))


async def filled_server_folder(rung: SharedRung, vectors: VectorCache, kept: Path, fresh: Path) -> None:
    """Make ``fresh`` the folder of a server that has the rung as the tenant `TENANT`.

    It is copied from what an earlier run with this model and these formulas left in ``kept``, and written
    there first where none did.
    """
    made_by = f"{vectors.encoder.card.fingerprint[:8]}-{SCORING_VERSION}"
    place = kept / f"shared-{rung.digest}-{made_by}"
    if not (place / "whole.json").exists():
        shutil.rmtree(place, ignore_errors=True)
        await _write(rung, vectors, place / "data" / TENANTS_FOLDER)
        (place / "whole.json").write_text(json.dumps({"memories": len(rung.memories)}) + "\n")
    shutil.copytree(place, fresh, dirs_exist_ok=True)


async def _write(rung: SharedRung, vectors: VectorCache, tenants: Path) -> None:
    """Through an engine, as a server does, with the vectors that it would make."""
    rows = vectors.vectors(rung.texts, TextRole.DOCUMENT)
    said = np.delete(rows, sorted(rung.unsaid), axis=0)
    engine = Engine(EngineSettings(tenants), vectors.encoder)
    await engine.start()
    try:
        tenant = await engine.create_tenant(TENANT, Ladder())
        fingerprint = tenant.model().fingerprint
        given = [GivenVector(vector, fingerprint) for vector in said]
        for start in range(0, len(given), _WRITE_BATCH):
            batch = slice(start, start + _WRITE_BATCH)
            await tenant.write(rung.memories[batch], given[batch], request_id=None, truncate=True)
    finally:
        await engine.close()


def _memories(corpus: SharedCorpus, data: Path) -> Iterator[NewMemory]:
    """A memory a row of the corpus: the turns of all dialogues first, then documents."""
    row = 0
    for conversation in load_conversations(data / "locomo"):
        past = str(uuid.uuid5(_IDS, conversation.id))
        for turn in conversation.turns:
            yield NewMemory(
                id=memory_id(row),
                rung=_RUNG,
                text=corpus.texts[row],
                event_time=turn.said_time,
                said_time=turn.said_time,
                kind=MemoryKind.EPISODE,
                source=Source(conversation_id=past, turn_id=turn.dia_id),
            )
            row += 1
    for text in corpus.texts[row:]:
        yield NewMemory(
            id=memory_id(row),
            rung=_RUNG,
            text=text,
            event_time=SAID,
            said_time=SAID,
            kind=MemoryKind.DOCUMENT,
        )
        row += 1


def _last_of_dialogues(exchanges: Sequence[Exchange], *, most_rows: int) -> list[Exchange]:
    """Those nearest to their dialogues' ends, as many as leave no more than so many rows unsaid together."""
    chosen: list[Exchange] = []
    unsaid: set[int] = set()
    for exchange in sorted((each for each in exchanges if each.unsaid), key=lambda each: len(each.unsaid)):
        unsaid.update(exchange.unsaid)
        if len(unsaid) > most_rows:
            break
        chosen.append(exchange)
    return chosen


def _kind(exchange: Exchange) -> str:
    return next(utterance.group for utterance in exchange.utterances if utterance.group)


def _answerable(exchange: Exchange, unsaid: frozenset[int]) -> Exchange:
    """Without the questions whose answers are in no memory."""
    utterances = tuple(each for each in exchange.utterances if not unsaid.intersection(each.gold))
    return Exchange(utterances, exchange.fitted, exchange.typed, exchange.unsaid)


def _evenly(exchanges: Sequence[Exchange], most: int | None) -> list[Exchange]:
    """Exchanges, evenly spaced, that hold about so many reads together; the last one is cut."""
    reads = sum(exchange.reads for exchange in exchanges)
    if most is None or reads <= most:
        return list(exchanges)
    count = max(1, -(-len(exchanges) * most // reads))
    chosen, left = [], most
    for place in range(count):
        cut = _first_reads(exchanges[place * len(exchanges) // count], left)
        chosen.append(cut)
        left -= cut.reads
    return [exchange for exchange in chosen if exchange.reads]


def _first_reads(exchange: Exchange, most: int) -> Exchange:
    utterances: list[Utterance] = []
    for utterance in exchange.utterances:
        if utterance.group and not most:
            break
        most -= bool(utterance.group)
        utterances.append(utterance)
    return Exchange(tuple(utterances), exchange.fitted, exchange.typed, exchange.unsaid)


def _mixed(kinds: Sequence[Sequence[Exchange]]) -> Iterator[Exchange]:
    """All kinds from the first to the last minute of a run."""
    places = [
        ((place + 0.5) / len(exchanges), number, exchange)
        for number, exchanges in enumerate(kinds)
        for place, exchange in enumerate(exchanges)
    ]
    for _, _, exchange in sorted(places, key=lambda each: each[:2]):
        yield exchange
