"""Pairs: slices, faults of a document and of the query, deadlines."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.errors import DeadlineExceeded, InvalidInput, TextTooLong
from precall.engine.retrieval.pair_reading import SLICE_CHARACTERS, PairingOptions, PairReading
from tests.fakes.reranker import WordReranker


class PickyReranker(WordReranker):
    """Cannot read the query ``bad``, and dies of the document ``fatal``."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        self.read.append(document)
        if query == "bad":
            raise InvalidInput("the query has nothing to read")
        if document == "fatal":
            raise ValueError("a fault of the tokenizer's own")
        return super().tokenize(query, document, truncate=truncate)


def reading(documents: list[str], query: str = "tea", **options: object) -> PairReading:
    return PairReading(
        PickyReranker(),
        query,
        documents,
        PairingOptions(**options),  # type: ignore[arg-type]
        max_text_characters=100_000,
        clock=lambda: 100.0,
    )


def read_all(each: PairReading) -> list[object]:
    return [item for part in each.slices() for item in each.read(part)]


@given(st.lists(st.integers(0, 120_000), max_size=12))
def test_slices_hold_every_document_once_and_are_no_longer_than_they_must(lengths: list[int]) -> None:
    each = reading(["x" * length for length in lengths])
    slices = list(each.slices())
    assert [position for part in slices for position in part.documents] == list(range(len(lengths)))
    assert sum(part.characters for part in slices) == each.characters
    for part in slices:
        counted = [each.characters_of(position) for position in part.documents]
        assert sum(counted[1:]) == 0 or part.characters <= SLICE_CHARACTERS


def test_a_fault_of_a_document_is_its_own() -> None:
    pairs = read_all(reading(["tea", "", "fatal", "a " * 9, "x" * 100_001, "tea"]))
    assert [type(pair) for pair in pairs] == [
        *(TokenizedText, InvalidInput, InvalidInput, TextTooLong, TextTooLong, TokenizedText)
    ]
    assert "ValueError" in pairs[2].message  # type: ignore[attr-defined]


@pytest.mark.parametrize("documents", [["tea"], ["", "tea"], ["tea"] * 500])
def test_a_fault_of_the_query_is_the_requests_and_found_at_the_first_document(documents: list[str]) -> None:
    reranker = PickyReranker()
    each = PairReading(
        reranker, "bad", documents, PairingOptions(), max_text_characters=100, clock=lambda: 0.0
    )
    with pytest.raises(InvalidInput, match="query has nothing"):
        read_all(each)
    assert len(reranker.read) == 2


def test_a_query_that_no_document_could_be_read_with_is_refused_at_once() -> None:
    with pytest.raises(TextTooLong, match="shorten the query"):
        reading([], "q" * 100_000, instruction="find")


def test_nobody_reads_past_the_deadline() -> None:
    with pytest.raises(DeadlineExceeded, match="read"):
        read_all(reading(["tea"], deadline=100.0))
    assert len(read_all(reading(["tea"], deadline=100.1))) == 1


def test_what_was_abandoned_is_read_no_further() -> None:
    each = reading(["tea", "tea"])
    each.abandon()
    assert read_all(each) == []
