"""Our keyword index beside SQLite's FTS5: the same documents, the same questions, the best ten of a rung.

python -P -m precall.bench.keyword --data ../shared/data/scifact --csv bench/results.csv
"""

import argparse
import csv
import random
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.results import Measurement, append_results, print_measurements
from precall.bench.stopwatch import measure_in_turns, median_ms
from precall.scoring.keyword import KeywordIndex, document_impacts
from precall.scoring.terms import analyze

SIZES: Final = (600, 10_000, 100_000)
QUESTIONS: Final = 60
LIMIT: Final = 10
RUNG: Final = "acme/dana"


def read_sentences(folder: Path) -> list[str]:
    """Sentences of the SciFact abstracts: 4 to 40 words, as memories are."""
    with (folder / "corpus_train.csv").open(newline="", encoding="utf-8") as file:
        abstracts = [row["abstract"] for row in csv.DictReader(file)]
    sentences = [
        part.strip(" '\"[]") for text in abstracts for part in re.split(r"(?<=[.!?])['\"]?\s+", text)
    ]
    return [sentence for sentence in sentences if 4 <= len(sentence.split()) <= 40]


def make_sentences(count: int, seed: int = 1) -> list[str]:
    """Sentences of invented words whose frequencies follow Zipf's law, for machines without the data."""
    generator = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprstv" for b in "aeiou"]
    words = ["".join(generator.choices(syllables, k=generator.randint(2, 4))) for _ in range(20_000)]
    shares = [1 / rank for rank in range(1, len(words) + 1)]
    return [" ".join(generator.choices(words, shares, k=generator.randint(6, 24))) for _ in range(count)]


def documents_of(sentences: Sequence[str], count: int, seed: int = 2) -> list[str]:
    """As many documents as asked for: each sentence once, and mixtures of two halves beyond that."""
    generator = random.Random(seed)
    documents = generator.sample(list(sentences), min(count, len(sentences)))
    while len(documents) < count:
        first, second = (generator.choice(sentences).split() for _ in range(2))
        documents.append(" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]]))
    return documents


class OurIndex:
    """As a partition uses it: the terms are analysed, weighed, scored, and the best ten chosen."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._index = KeywordIndex()
        for document in documents:
            self._index.add(document_impacts(analyze(document)))

    def best(self, question: str) -> NDArray[np.int64]:
        terms = analyze(question)
        scores = self._index.scores(self._index.statistics(terms).weights(terms))
        best = np.argpartition(scores, len(scores) - LIMIT)[-LIMIT:]
        return best[np.argsort(-scores[best])]


class FtsIndex:
    """FTS5 in memory, ranked by its bm25, with the rung in a column of its own."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute(
            "CREATE VIRTUAL TABLE memories USING fts5(text, rung UNINDEXED, tokenize = 'porter unicode61')"
        )
        with self._database:
            self._database.executemany(
                "INSERT INTO memories (text, rung) VALUES (?, ?)", ((text, RUNG) for text in documents)
            )
        self._database.execute("INSERT INTO memories (memories) VALUES ('optimize')")

    def best(self, question: str) -> list[int]:
        match = " OR ".join(f'"{term}"' for term in dict.fromkeys(analyze(question)))
        rows = self._database.execute(
            "SELECT rowid FROM memories WHERE memories MATCH ? AND rung = ? ORDER BY bm25(memories) LIMIT ?",
            (match, RUNG, LIMIT),
        )
        return [row[0] - 1 for row in rows]


def measure(documents: Sequence[str], questions: Sequence[str]) -> list[Measurement]:
    ours, theirs = OurIndex(documents), FtsIndex(documents)
    seconds = measure_in_turns(
        {
            "ours": lambda turn: ours.best(questions[turn % len(questions)]),
            "fts5": lambda turn: theirs.best(questions[turn % len(questions)]),
        },
        rounds=2 * len(questions),
    )
    our_ms, their_ms = median_ms(seconds["ours"]), median_ms(seconds["fts5"])
    shared = [len(set(ours.best(each).tolist()) & set(theirs.best(each))) / LIMIT for each in questions]
    case = f"{len(documents)} documents"
    return [
        Measurement("keyword", case, "p50 of a query", our_ms, "ms", "SQLite FTS5", their_ms / our_ms),
        Measurement("keyword", case, "FTS5 p50 of a query", their_ms, "ms"),
        Measurement("keyword", case, "top 10 in common", float(np.mean(shared)), "share", "SQLite FTS5"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of SciFact; without it the words are invented")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    arguments = parser.parse_args()
    sentences = read_sentences(arguments.data) if arguments.data else make_sentences(20_000)
    generator = random.Random(3)
    questions = [" ".join(generator.choice(sentences).split()[:8]) for _ in range(QUESTIONS)]
    measurements = [each for size in SIZES for each in measure(documents_of(sentences, size), questions)]
    print_measurements(measurements)
    if arguments.csv:
        append_results(arguments.csv, measurements)


if __name__ == "__main__":
    main()
