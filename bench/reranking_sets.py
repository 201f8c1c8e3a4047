"""Documents, questions and what answers them, from the data folders that reranking is measured on."""

import csv
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from precall.bench.locomo import LocomoConversation, load_conversations

FITTED_CONVERSATIONS: Final = frozenset({"26", "30"})
"""Constants of the product are chosen on these LoCoMo conversations and on SciFact's claims of even id."""

SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Question:
    """``relevant`` holds places in the set's documents, each once, and is not empty."""

    text: str
    relevant: frozenset[int]
    is_fitted: bool = False


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Questions over one corpus. ``name`` is that of the data, shared by the corpora that are averaged.

    ``context``: per document the place of what was said just before it, None for nothing; empty: for all of
    them nothing.
    """

    name: str
    documents: Sequence[str]
    questions: Sequence[Question]
    context: Sequence[int | None] = ()


def locomo(folder: Path) -> list[RetrievalSet]:
    """A corpus a conversation, each turn a document with its speaker's name before it."""
    return [_conversation(conversation) for conversation in load_conversations(folder)]


def _conversation(conversation: LocomoConversation) -> RetrievalSet:
    places = {turn.dia_id: place for place, turn in enumerate(conversation.turns)}
    questions = [
        Question(
            each.question,
            frozenset(places[dia_id] for dia_id in each.evidence),
            conversation.id in FITTED_CONVERSATIONS,
        )
        for each in conversation.questions
        if each.evidence
    ]
    turns = conversation.turns
    return RetrievalSet(
        "locomo",
        [f"{turn.speaker}: {turn.text}" for turn in turns],
        questions,
        [
            place - 1 if place and turns[place - 1].session == turn.session else None
            for place, turn in enumerate(turns)
        ],
    )


def scifact(folder: Path) -> list[RetrievalSet]:
    """Title and abstract of 400 articles: those that the first 120 claims with evidence cite, and others.

    A sample, since the whole corpus takes small machines an hour: its figures compare with each other alone.
    """
    with (folder / "corpus_train.csv").open(newline="", encoding="utf-8") as file:
        articles = {
            row["doc_id"]: f"{row['title']}. {_plain(row['abstract'])}" for row in csv.DictReader(file)
        }
    cited: dict[int, tuple[str, list[str]]] = {}
    with (folder / "claims_validation.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            named = row["cited_doc_ids"].strip("[]").replace(",", " ").split()
            known = [id_ for id_ in named if id_ in articles]
            if known:
                cited.setdefault(int(row["id"]), (row["claim"], known))
    claims = dict(list(cited.items())[:120])
    kept = sorted({id_ for _, ids in claims.values() for id_ in ids})
    others = sorted(articles.keys() - set(kept))
    kept += random.Random(SEED).sample(others, max(400 - len(kept), 0))
    places = {id_: place for place, id_ in enumerate(kept)}
    questions = [
        Question(claim, frozenset(places[id_] for id_ in ids), number % 2 == 0)
        for number, (claim, ids) in claims.items()
    ]
    return [RetrievalSet("scifact", [articles[id_] for id_ in kept], questions)]


def _plain(abstract: str) -> str:
    """The file holds a printed list of sentences."""
    return " ".join(abstract.strip("[]").replace("'\n '", " ").replace("' '", " ").split())


def xquad(folder: Path) -> list[RetrievalSet]:
    """The English paragraphs, with every fourth question."""
    document = json.loads((folder / "xquad.en.json").read_text(encoding="utf-8"))
    paragraphs = [paragraph for article in document["data"] for paragraph in article["paragraphs"]]
    questions = [
        Question(each["question"], frozenset({place}))
        for place, paragraph in enumerate(paragraphs)
        for each in paragraph["qas"]
    ]
    return [RetrievalSet("xquad", [paragraph["context"] for paragraph in paragraphs], questions[::4])]


def madial(folder: Path) -> list[RetrievalSet]:
    """The last three turns before the one that needs a memory, over the English memories."""
    memories: dict[int, str] = {}
    for fields in _json_lines(folder / "MADial-Bench-en-memory.json"):
        ((number, memory),) = fields.items()
        memories[int(number)] = str(memory["event"])
    places = {number: place for place, number in enumerate(memories)}
    questions = []
    for fields in _json_lines(folder / "MADial-Bench-en-dialogue.json"):
        said = [turn.strip().split(">: ", 1)[-1].strip('"') for turn in fields["dialogue"]]
        (needed, *_) = fields["test-turn"]
        relevant = frozenset(places[number] for number in fields["relevant-id"] if number in places)
        if relevant:
            questions.append(Question(" ".join(said[max(needed - 3, 1) : needed]), relevant))
    return [RetrievalSet("madial", list(memories.values()), questions)]


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def hinglish(folder: Path) -> list[RetrievalSet]:
    """300 romanised Hindi-English utterances, each to find its English twin among all of them."""
    path = folder / "hinglish_english_user_pairs.tsv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    documents = list(dict.fromkeys(row["english"] for row in rows))
    places = {document: place for place, document in enumerate(documents)}
    twins: dict[str, set[int]] = {}
    for row in rows:
        twins.setdefault(row["hinglish"], set()).add(places[row["english"]])
    chosen = random.Random(SEED).sample(sorted(twins), min(300, len(twins)))
    return [RetrievalSet("hinglish", documents, [Question(text, frozenset(twins[text])) for text in chosen])]


SETS: Final[Mapping[str, Callable[[Path], list[RetrievalSet]]]] = {
    "locomo": locomo,
    "scifact": scifact,
    "xquad": xquad,
    "madial": madial,
    "hinglish": hinglish,
}
"""Each reads the folder of its name."""
