"""One rung of all that is known, and conversations about it: what the judgement is fitted and tried on.

LoCoMo's dialogues, SciFact's abstracts and XQuAD's English paragraphs stand together, over 8,000 memories.
Asked are their questions and claims, spoken word by word, and the dialogues' own later turns, spoken or
typed. Fitted is on LoCoMo 26 and 30, SciFact's training claims and the paragraphs of even number; the rest
reports.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from precall.bench.locomo import LocomoConversation, load_conversations
from precall.bench.quality_sets import (
    FITTED_ON,
    TRAINING_CLAIMS,
    LabelledQuery,
    LabelledSet,
    conversation_set,
    load_scifact,
    load_xquad,
)
from precall.bench.transcript import speak
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Memory, MemoryKind, MemoryState, Source
from precall.scoring.keyword import CONTEXT_SHARES, document_impacts
from precall.scoring.memory_columns import Features
from precall.scoring.memory_set import MemorySet
from precall.scoring.terms import analyze

RUNG: Final = Rung(("everything",))
MOST_PARTIALS: Final = 8
"""Of a read, the last: as many coverages as a session keeps."""
QUESTIONS_A_CONVERSATION: Final = 20
_TURNS_A_WINDOW: Final = 14
_TURNS_BEFORE: Final = 3
SAID: Final = datetime(2023, 6, 1, tzinfo=UTC)
"""Of texts without a date: in the dialogues' years, or their recency would put them before every turn."""
NEW_TURNS: Final = "turn-new"
KNOWN_TURNS: Final = "turn-known"
"""The groups of turns that are in no memory yet, and of those that are."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What is said, after its ``partials``. ``group``: of a read with these words; empty: nothing is read.

    ``gold``: rows of the memories that answer, where the set names them.
    """

    text: str
    partials: tuple[str, ...] = ()
    group: str = ""
    gold: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One session's utterances. ``typed``: read before its own words can be retrieved for, without partials.

    ``unsaid``: rows that are in no memory yet, which are the dialogue's from here on.
    """

    utterances: tuple[Utterance, ...]
    fitted: bool
    typed: bool = False
    unsaid: range = range(0)

    @property
    def reads(self) -> int:
        return sum(bool(utterance.group) for utterance in self.utterances)


@dataclass(frozen=True, slots=True)
class _Part:
    """A set's place among the rows of the rung."""

    labelled: LabelledSet
    first: int


class SharedCorpus:
    """The rung's texts and the exchanges about it; no vectors. ``dialogues``: the rows of each."""

    def __init__(self, data: Path) -> None:
        """``data``: a folder that holds locomo, scifact and xquad. Raises their loaders' errors."""
        self.texts: list[str] = []
        self.impacts: list[Mapping[str, float]] = []
        self.dialogues: list[range] = []
        self.exchanges: list[Exchange] = []
        for conversation in load_conversations(data / "locomo"):
            part = self._add(conversation_set(conversation))
            self.dialogues.append(range(part.first, len(self.texts)))
            fitted = conversation.id in FITTED_ON
            self._ask(part, part.labelled.queries, "locomo", fitted, most=300)
            self.exchanges += _dialogue(conversation, part.first, fitted)
        scifact = self._add(load_scifact(data / "scifact")[0])
        training = load_scifact(data / "scifact", TRAINING_CLAIMS)[0]
        self._ask(scifact, training.queries, "scifact", fitted=True, most=500)
        self._ask(scifact, scifact.labelled.queries, "scifact", fitted=False, most=300)
        xquad = self._add(load_xquad(data / "xquad")[0])
        for odd in (False, True):
            queries = [query for query in xquad.labelled.queries if query.relevant[0] % 2 == odd]
            self._ask(xquad, queries, "xquad", fitted=not odd, most=300 if odd else 400)

    def asked_texts(self) -> list[str]:
        """Every text that is embedded as a question, each once."""
        texts: dict[str, None] = {}
        for exchange in self.exchanges:
            for utterance in exchange.utterances:
                texts |= dict.fromkeys((*utterance.partials, utterance.text))
        return list(texts)

    def _add(self, labelled: LabelledSet) -> _Part:
        part = _Part(labelled, len(self.texts))
        terms = [analyze(text) for text in labelled.memories]
        for row in range(len(terms)):
            before = [terms[earlier] for earlier in _before(labelled, row)]
            self.impacts.append(document_impacts(terms[row], before))
        self.texts += labelled.memories
        return part

    def _ask(
        self, part: _Part, queries: Sequence[LabelledQuery], group: str, fitted: bool, most: int
    ) -> None:
        count = min(len(queries), most)
        asked = [queries[place * len(queries) // count] for place in range(count)]
        for start in range(0, count, QUESTIONS_A_CONVERSATION):
            utterances = tuple(
                _spoken(query.text, group, tuple(part.first + row for row in query.relevant))
                for query in asked[start : start + QUESTIONS_A_CONVERSATION]
            )
            self.exchanges.append(Exchange(utterances, fitted))


def indexed_memories(corpus: SharedCorpus, vectors: Iterable[object]) -> Iterator[IndexedMemory]:
    """The rung's memories as the engine has them; a memory's id is its row."""
    for row, (text, impacts, vector) in enumerate(zip(corpus.texts, corpus.impacts, vectors, strict=True)):
        memory = Memory(
            id=str(row),
            rung=RUNG,
            kind=MemoryKind.EPISODE,
            state=MemoryState.CURRENT,
            text=text,
            key="",
            confidence=1.0,
            importance=0.5,
            event_time=SAID,
            said_time=SAID,
            valid_from=None,
            valid_until=None,
            expires_at=None,
            source=Source(),
            questions=(),
            metadata={},
            pinned=False,
            created_version=1,
            superseded_version=0,
            created_at=SAID,
            tokens_given=0,
            tokens_used=0,
        )
        yield IndexedMemory(memory, vector, impacts)  # type: ignore[arg-type]


def ranked_set(memories: Sequence[IndexedMemory]) -> MemorySet:
    """The table that the rung is searched in; slots are rows."""
    table = MemorySet(len(memories[0].vector))
    for indexed in memories:
        table.add(
            indexed.memory.id,
            Features(
                vector=indexed.vector,
                impacts=indexed.impacts,
                importance=indexed.memory.importance,
                event_seconds=indexed.memory.event_time.timestamp(),
                servable_from=indexed.memory.servable_from,
                servable_until=indexed.memory.servable_until,
                depth=1,
            ),
        )
    return table


def _before(labelled: LabelledSet, row: int) -> Iterator[int]:
    """Rows of what was said just before, the latest first."""
    for _ in CONTEXT_SHARES:
        earlier = labelled.context[row]
        if earlier is None:
            return
        yield (row := earlier)


def _spoken(text: str, group: str, gold: tuple[int, ...] = ()) -> Utterance:
    """With those of its partial transcripts that bring a new term, as a server predicts from them."""
    spoken = speak(text)
    partials: list[str] = []
    terms: set[str] | None = None
    for partial in spoken.partials:
        if terms != (now := set(analyze(partial.text))):
            partials.append(partial.text)
            terms = now
    return Utterance(spoken.text, tuple(partials[-MOST_PARTIALS:]), group, gold)


def _dialogue(conversation: LocomoConversation, first: int, fitted: bool) -> Iterator[Exchange]:
    """Windows of its turns: spoken and typed, while they stand in memory already and while they do not."""
    rows = len(conversation.turns)
    step = _TURNS_A_WINDOW if fitted else 2 * _TURNS_A_WINDOW
    for start in range(rows // 8, rows - _TURNS_A_WINDOW, step):
        turns = conversation.turns[start : start + _TURNS_A_WINDOW]
        for unsaid in (range(first + start, first + rows), range(0)):
            group = NEW_TURNS if unsaid else KNOWN_TURNS
            before = [Utterance(turn.text) for turn in turns[:_TURNS_BEFORE]]
            later = [turn.text for turn in turns[_TURNS_BEFORE:]]
            spoken = [_spoken(text, group) for text in later]
            typed = [Utterance(text, group=group) for text in later]
            yield Exchange((*before, *spoken), fitted, False, unsaid)
            yield Exchange((*before, *typed), fitted, True, unsaid)
