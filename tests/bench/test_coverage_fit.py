"""The lab in which the cache's judgement is fitted: a true server, a true cache, and an honest regression."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from precall.bench.coverage_corpus import Exchange, SharedCorpus, Utterance, indexed_memories
from precall.bench.coverage_fit import bar_for, fit_part
from precall.bench.coverage_lab import Budget, Lab
from precall.scoring.evidence import NAMES, values
from precall.scoring.keyword import document_impacts
from precall.scoring.terms import analyze
from precall.scoring.vectors import unit

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
SLACK = NAMES.index("slack")


def columns(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, len(NAMES)))


def outcomes(odds: np.ndarray, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=len(odds)) < 1 / (1 + np.exp(-odds))


def test_a_fit_finds_what_made_the_data() -> None:
    evidence = columns(20_000)
    truth = np.linspace(1.5, -1.0, len(NAMES))
    part = fit_part(evidence, outcomes(evidence @ truth + 1.0), 0.007)
    assert values(part.weights) == pytest.approx(truth, abs=0.12) and part.intercept == pytest.approx(
        1.0, abs=0.12
    )


def test_slack_never_speaks_against_an_answer() -> None:
    evidence = columns(3_000)
    part = fit_part(evidence, outcomes(-2.0 * evidence[:, SLACK] + evidence[:, 3]), 0.007)
    assert part.weights.slack == 0.0 and part.weights.distance > 0.5


def test_the_bar_lets_no_more_pass_than_the_aim_allows() -> None:
    score = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    good = np.array([True, True, False, True, False])
    assert bar_for(score, good, aim=0.0) == 4.0
    assert bar_for(score, good, aim=0.2) == 2.0
    assert bar_for(score, good, aim=0.4) == 1.0
    assert bar_for(score, ~good, aim=0.0) == float("inf")


def embedded(text: str) -> np.ndarray:
    """A sum of a random vector a term."""
    total = np.zeros(64, np.float32)
    for term in analyze(text):
        seed = int.from_bytes(term.encode()[:8].ljust(8, b"."), "big")
        total += np.random.default_rng(seed).normal(size=64).astype(np.float32)
    return unit(total)


class WordCorpus(SharedCorpus):
    """A corpus of some made-up texts."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.impacts = [document_impacts(analyze(text)) for text in texts]
        self.exchanges = []


def word_lab(exchange: Exchange, texts: list[str], dialogues: Sequence[range] = ()) -> Lab:
    corpus = WordCorpus(texts)
    corpus.exchanges = [exchange]
    asked = {text: embedded(text) for text in corpus.asked_texts()}
    stored = [embedded(text).astype(np.float16) for text in texts]
    return Lab(list(indexed_memories(corpus, stored)), asked, (), dialogues)


TOPICS = ("garden", "piano", "harbour", "glacier")
TEXTS = [f"{topic} memory {word}" for topic in TOPICS for word in "abcdefghijklmnopqrst"]


@pytest.mark.parametrize(("end", "right"), [("piano a", True), ("glacier memory", False)])
def test_a_read_is_right_while_it_stays_with_what_was_pushed(end: str, right: bool) -> None:
    said = Utterance(f"piano memory {end}", ("piano memory",), "spoken", gold=(20,))
    (read,) = word_lab(Exchange((said,), fitted=True), TEXTS).reads(
        Exchange((said,), fitted=True), Budget(20, 20)
    )
    assert read.right is right
    assert read.group == "spoken" and read.continued
    assert right or not read.proven


def test_typed_reads_are_made_before_their_words_are_retrieved_for() -> None:
    turns = (Utterance("piano memory"), Utterance("glacier memory", group="typed"))
    exchange = Exchange(turns, fitted=False, typed=True)
    (read,) = word_lab(exchange, TEXTS).reads(exchange, Budget(40, 20))
    assert not read.right, "only the earlier turn's answer is held"


def test_what_is_not_said_yet_is_in_no_answer() -> None:
    said = Utterance("piano memory a", ("piano memory",), "spoken")
    exchange = Exchange((said,), fitted=True, unsaid=range(20, 40))
    (read,) = word_lab(exchange, TEXTS).reads(exchange, Budget(60, 60))
    assert read.right, "every memory of the topic is unsaid, for the server as well"


def test_what_was_said_around_the_found_is_held_too() -> None:
    turns = (Utterance("piano memory"), Utterance("piano memory a", group="typed"))
    exchange = Exchange(turns, fitted=False, typed=True)
    held = []
    for dialogues in ([], [range(80)]):
        (read,) = word_lab(exchange, TEXTS, dialogues).reads(exchange, Budget(60, 10))
        held.append(round(256 * np.exp(read.evidence.held)))
    assert held[0] == 10 and 10 < held[1] <= 60


@pytest.mark.skipif(not (DATA / "locomo").is_dir(), reason="the shared data sets are not here")
def test_what_is_fitted_on_reports_nothing() -> None:
    corpus = SharedCorpus(DATA)
    assert len(corpus.texts) == len(corpus.impacts) > 8_000
    fitted, reported = (
        {
            each.text
            for exchange in corpus.exchanges
            if exchange.fitted is side
            for each in exchange.utterances
            if each.group
        }
        for side in (True, False)
    )
    assert len(fitted) > 1_500 and len(reported) > 1_500
    assert len(fitted & reported) < 20, "the same short turns are said in several conversations"
    assert {exchange.fitted for exchange in corpus.exchanges if exchange.typed} == {True, False}
