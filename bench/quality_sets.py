"""Public retrieval sets as one kind of thing: texts to remember, queries, and which texts answer them."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from precall.bench.locomo import LocomoConversation, QuestionCategory, load_conversations

ALL: Final = "all"
"""The case that every query of a set is in."""

FITTED_ON: Final = frozenset({"26", "30"})
"""LoCoMo conversations that the product's constants were chosen on. The others are held out."""

TRAINING_CLAIMS: Final = "claims_train.csv"
TEST_CLAIMS: Final = "claims_validation.csv"
"""SciFact's own split: what is fitted is fitted on the first; the second is BEIR's test part."""

XQUAD_LANGUAGES: Final = ("en", "hi", "zh", "ar")
MADIAL_LANGUAGES: Final = ("en", "zh")


class QualitySetError(ValueError):
    """A file is not in its set's format; the message names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """``relevant``: rows of the memories that answer, each once, at least one. ``case``: its category."""

    text: str
    relevant: tuple[int, ...]
    case: str = ALL


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """One rung of memories and the queries about it. ``context``: per memory, the row of the one said before.

    ``context`` is None where a memory has no predecessor. Several sets of one ``name`` are reported as one:
    each is searched alone, their queries are averaged together.
    """

    name: str
    memories: tuple[str, ...]
    queries: tuple[LabelledQuery, ...]
    context: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if len(self.context) != len(self.memories):
            raise QualitySetError(
                f"{self.name}: {len(self.context)} predecessors for {len(self.memories)} memories"
            )
        for query in self.queries:
            rows = query.relevant
            if not rows or len(set(rows)) != len(rows) or not all(0 <= r < len(self.memories) for r in rows):
                raise QualitySetError(f"{self.name}: {query.text!r} is answered by rows {rows}")


def unconnected(name: str, memories: Sequence[str], queries: Sequence[LabelledQuery]) -> LabelledSet:
    """A set whose memories were not said one after the other."""
    return LabelledSet(name, tuple(memories), tuple(queries), (None,) * len(memories))


def sampled(labelled: LabelledSet, most: int) -> LabelledSet:
    """The set with at most so many of its queries, evenly spaced; its name then says so."""
    count = len(labelled.queries)
    if count <= most:
        return labelled
    queries = tuple(labelled.queries[place * count // most] for place in range(most))
    return replace(labelled, name=f"{labelled.name} ({most} of {count})", queries=queries)


def load_locomo(folder: Path) -> list[LabelledSet]:
    """A set a conversation, named for whether constants were fitted on it; its memories are
    ``Speaker: words``, as `precall.bench.replay` stores them.

    Questions without evidence are left out. Raises LocomoFormatError.
    """
    return [conversation_set(conversation) for conversation in load_conversations(folder)]


def conversation_set(conversation: LocomoConversation) -> LabelledSet:
    turns = conversation.turns
    rows = {turn.dia_id: row for row, turn in enumerate(turns)}
    return LabelledSet(
        name="locomo-fitted" if conversation.id in FITTED_ON else "locomo-held-out",
        memories=tuple(f"{turn.speaker}: {turn.text}" for turn in turns),
        queries=tuple(
            LabelledQuery(
                question.question,
                tuple(rows[dia_id] for dia_id in question.evidence),
                _category_name(question.category),
            )
            for question in conversation.questions
            if question.evidence
        ),
        context=tuple(
            row - 1 if row and turns[row - 1].session == turn.session else None
            for row, turn in enumerate(turns)
        ),
    )


def load_scifact(folder: Path, claims_file: str = TEST_CLAIMS) -> list[LabelledSet]:
    """Abstracts with their titles, and the claims of one part that cite one."""
    documents = {
        row["doc_id"]: f"{row['title']} {_abstract(row['abstract'])}"
        for row in _table(folder / "corpus_train.csv", ("doc_id", "title", "abstract"))
    }
    places = {doc_id: place for place, doc_id in enumerate(documents)}
    claims: dict[str, str] = {}
    cited: dict[str, dict[int, None]] = {}
    for row in _table(folder / claims_file, ("id", "claim", "cited_doc_ids")):
        claims[row["id"]] = row["claim"]
        known = [places[doc_id] for doc_id in re.findall(r"\d+", row["cited_doc_ids"]) if doc_id in places]
        cited.setdefault(row["id"], {}).update(dict.fromkeys(known))
    queries = [LabelledQuery(claims[key], tuple(rows)) for key, rows in cited.items() if rows]
    name = "scifact" if claims_file == TEST_CLAIMS else "scifact-training"
    return [unconnected(name, list(documents.values()), queries)]


def load_xquad(folder: Path) -> list[LabelledSet]:
    """A set a language: its paragraphs, and its questions about them."""
    return [_load_xquad_language(folder / f"xquad.{language}.json", language) for language in XQUAD_LANGUAGES]


def load_madial(folder: Path) -> list[LabelledSet]:
    """A set a language: memories, and dialogues up to the turn in which the assistant recalls one.

    The query is all that the user has said till then, since no one turn of theirs asks for the memory.
    """
    return [_load_madial_language(folder, language) for language in MADIAL_LANGUAGES]


def load_hinglish(folder: Path) -> list[LabelledSet]:
    """Romanised Hindi utterances that ask for their English twin."""
    path = folder / "hinglish_english_user_pairs.tsv"
    pairs = _table(path, ("hinglish", "english"), delimiter="\t", quoting=csv.QUOTE_NONE)
    rows: dict[str, int] = {}
    queries = []
    for pair in pairs:
        row = rows.setdefault(pair["english"].strip(), len(rows))
        queries.append(LabelledQuery(pair["hinglish"].strip(), (row,)))
    return [unconnected("hinglish", list(rows), queries)]


LOADERS: Final[Mapping[str, Callable[[Path], list[LabelledSet]]]] = MappingProxyType(
    {
        "locomo": load_locomo,
        "scifact": load_scifact,
        "xquad": load_xquad,
        "madial": load_madial,
        "hinglish": load_hinglish,
    }
)
"""Folder's name -> what reads it."""


def load_sets(data: Path, names: Sequence[str], most_queries: int | None = None) -> list[LabelledSet]:
    """The named sets of a folder that holds a folder a set. ``most_queries``: of each rung, by `sampled`.

    Raises LocomoFormatError, QualitySetError, and OSError for a file that cannot be read.
    """
    sets = [labelled for name in names for labelled in LOADERS[name](data / name)]
    return sets if most_queries is None else [sampled(labelled, most_queries) for labelled in sets]


def _category_name(category: QuestionCategory) -> str:
    return f"{category.value} {category.name.lower().replace('_', '-')}"


def _load_xquad_language(path: Path, language: str) -> LabelledSet:
    memories: list[str] = []
    queries: list[LabelledQuery] = []
    try:
        for article in _json(path)["data"]:
            for paragraph in article["paragraphs"]:
                row = len(memories)
                memories.append(paragraph["context"])
                queries += [LabelledQuery(entry["question"], (row,)) for entry in paragraph["qas"]]
    except (KeyError, TypeError) as error:
        raise QualitySetError(f"{path}: not in the format of SQuAD: {error!r}") from error
    return unconnected(f"xquad-{language}", memories, queries)


def _load_madial_language(folder: Path, language: str) -> LabelledSet:
    path = folder / f"MADial-Bench-{language}-memory.json"
    memories: dict[str, str] = {}
    for entry in _json_lines(path):
        memories |= {key: fields["event"] for key, fields in entry.items()}
    rows = {key: row for row, key in enumerate(memories)}
    queries = []
    for dialogue in _json_lines(folder / f"MADial-Bench-{language}-dialogue.json"):
        before = dialogue["dialogue"][: dialogue["test-turn"][0]]
        said = [words for line in before if (words := _user_words(line))]
        relevant = dict.fromkeys(rows[str(key)] for key in dialogue["relevant-id"] if str(key) in rows)
        if said and relevant:
            queries.append(LabelledQuery(" ".join(said), tuple(relevant)))
    return unconnected(f"madial-{language}", list(memories.values()), queries)


def _user_words(line: str) -> str:
    """What follows ``<Name>:``, without its quotes; empty for the assistant's lines and for marks."""
    match = re.match(r"\s*<([^>]+)>\s*[:\uff1a]\s*(.*)", line, re.DOTALL)
    if match is None or match[1] == "Assistant":
        return ""
    return match[2].strip().strip('"“”')


def _abstract(field: str) -> str:
    """The sentences of an abstract, which the file has as a printed array, a quoted sentence a line."""
    sentences = (line.strip().strip("[]").strip() for line in field.splitlines())
    return " ".join(sentence.strip("'\"") for sentence in sentences)


def _table(
    path: Path,
    columns: Sequence[str],
    delimiter: str = ",",
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
) -> Iterator[Mapping[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, delimiter=delimiter, quoting=quoting)
        if missing := set(columns) - set(reader.fieldnames or ()):
            raise QualitySetError(f"{path}: has no column {', '.join(sorted(missing))}")
        yield from reader


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise QualitySetError(f"{path}: not JSON: {error}") from error


def _json_lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise QualitySetError(f"{path}: not lines of JSON: {error}") from error
