"""The small reranker beside transformers and the formula written out, and the contract of every reranker."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.encoding import late_interaction
from precall.engine.encoding.choice import ModelChoice, Runtime
from precall.engine.encoding.encoder import TokenUsage
from precall.engine.encoding.guard import RerankerGuard
from precall.engine.encoding.late_interaction import CARD, LateInteractionReranker
from precall.engine.encoding.late_interaction_weights import STOP_WORD_SHARE, word_weights
from precall.engine.encoding.loading import load_reranker
from precall.engine.encoding.minilm import ModelFiles
from precall.engine.encoding.token_graph import TokenGraph
from precall.engine.errors import (
    ConfigurationError,
    InvalidInput,
    ModelUnavailable,
    NotSupported,
    NumericsError,
    TextTooLong,
)
from precall.scoring.query_terms import QueryTerms

LIMIT = CARD.max_tokens
QUERY = "What food must Dana avoid?"
DOCUMENTS = [
    "Dana is allergic to peanuts.",
    "x",
    "दाना को मूंगफली से एलर्जी है।",
    "memory " * 400,
    "The kettle in the kitchen\nis broken again.\n",
    "  white space around  ",
    "fish " * 60,
    "Dana is allergic to peanuts.",
]


@pytest.fixture(scope="module")
def reranker() -> LateInteractionReranker:
    """From the user's cache, so that only the first run on a machine exports it."""
    return LateInteractionReranker()


def score(
    reranker: LateInteractionReranker,
    query: str,
    documents: Sequence[str],
    term_weights: Mapping[str, float] | None = None,
) -> np.ndarray:
    pairs = [reranker.tokenize(query, text, truncate=False, term_weights=term_weights) for text in documents]
    batch = reranker.score(pairs)
    assert batch.errors == {} and batch.scores.dtype == np.float32
    return batch.scores


class RecordingGraph:
    """Stands before the real graph and may spoil what it says of one text; ``calls``: the lengths of each."""

    def __init__(self, graph: TokenGraph, poisoned_token: int | None = None) -> None:
        self._graph = graph
        self._poisoned_token = poisoned_token
        self.texts: list[list[int]] = []
        self.calls: list[list[int]] = []

    def token_vectors(self, texts: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.texts += [text.tolist() for text in texts]
        self.calls.append([len(text) for text in texts])
        vectors = self._graph.token_vectors(texts)
        for text, rows in zip(texts, vectors, strict=True):
            rows[text == self._poisoned_token] = np.nan
        return vectors


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, reranker: LateInteractionReranker) -> RecordingGraph:
    recording = RecordingGraph(reranker._graph)
    monkeypatch.setattr(reranker, "_graph", recording)
    return recording


def test_scores_are_those_of_the_formula(reranker, minilm_files: ModelFiles):
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(minilm_files.folder, local_files_only=True)
    model = AutoModel.from_pretrained(minilm_files.folder, local_files_only=True).eval()

    def vectors(text: str) -> np.ndarray:
        inputs = tokenizer(text, return_tensors="pt", truncation=False)
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state[0, 1:-1].numpy()
        return hidden / np.linalg.norm(hidden, axis=1, keepdims=True)

    query = "Which peanutty food must Dana avoid?"
    # which, peanut, ##ty, food, must, dana, avoid, ?
    weights = np.array([0.3, 0.5, 0.5, 1, 1, 1, 1, 0])
    asked = vectors(query)
    expected = [
        (weights / weights.sum()) @ (asked @ vectors(document).T).max(axis=1).clip(min=0)
        for document in DOCUMENTS
    ]
    scores = score(reranker, query, DOCUMENTS)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert np.ptp(scores) > 0.1, "scores that hardly differ would prove nothing"


def test_batch_order_and_repetition_change_nothing(reranker):
    pairs = [reranker.tokenize(QUERY, document, truncate=False) for document in DOCUMENTS]
    scores = reranker.score(pairs).scores
    singles = [reranker.score([pair]).scores[0] for pair in pairs]
    mixed = reranker.score([*pairs[::-1], reranker.tokenize("another", "thing " * 300, truncate=False)])
    for other in (singles, mixed.scores[-2::-1], reranker.score(pairs).scores):
        np.testing.assert_allclose(scores, other, atol=1e-4)
    assert scores[0] == scores[-1]


def test_each_text_goes_through_the_model_once(reranker, recorded):
    queries = [QUERY, "Where is the kettle?"]
    pairs = [reranker.tokenize(query, text, truncate=False) for query in queries for text in DOCUMENTS]
    reranker.score(pairs)
    assert len(recorded.texts) == len(set(DOCUMENTS)) + len(queries)
    assert len({tuple(text) for text in recorded.texts}) == len(recorded.texts)


def test_many_pairs_are_scored_in_parts_that_stay_small(reranker, recorded, monkeypatch):
    queries = [QUERY, "Where is the kettle?", "fish"]
    pairs = [reranker.tokenize(query, text, truncate=False) for text in DOCUMENTS for query in queries]
    whole = reranker.score(pairs).scores
    recorded.calls.clear()
    monkeypatch.setattr(late_interaction, "PART_TOKENS", 64)
    parts = reranker.score(pairs).scores
    np.testing.assert_allclose(parts, whole, atol=1e-4)
    asked, *documents = recorded.calls
    assert len(asked) == len(queries) and len(documents) > 2
    assert all(sum(part) <= 64 or len(part) == 1 for part in documents)


def test_a_text_that_answers_itself_has_the_highest_score(reranker):
    scores = score(reranker, QUERY, [*DOCUMENTS, QUERY])
    assert scores[-1] == pytest.approx(1.0, abs=1e-5)
    assert scores.argmax() == len(DOCUMENTS)
    assert (scores >= 0).all() and (scores <= 1).all()


def test_a_rare_word_outweighs_a_common_one(reranker):
    documents = ["Dana likes tea.", "The invoice is due."]
    assert np.argmax(score(reranker, "Dana invoice", documents, {"dana": 6.0, "invoic": 0.1})) == 0
    assert np.argmax(score(reranker, "Dana invoice", documents, {"dana": 0.1, "invoic": 6.0})) == 1


def test_what_looks_like_a_special_token_is_text(reranker):
    disguised = reranker.tokenize("why [SEP] [MASK]", "because [CLS] so [SEP]", truncate=False)
    special = [reranker._pairs._tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]", "[MASK]")]
    assert np.isin(disguised.token_ids, special).sum() == 3
    assert np.isin(disguised.query_ids, special).tolist() == [True, *[False] * 7, True]


def document_of(reranker: LateInteractionReranker, tokens: int) -> str:
    """A document that makes the pair of ``QUERY`` exactly ``tokens`` long: a token a word."""
    frame = reranker.tokenize(QUERY, "memory", truncate=False).usage.given - 1
    return " ".join(["memory"] * (tokens - frame))


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1, 10 * LIMIT])
def test_lengths_around_the_limit(reranker, length):
    document = document_of(reranker, length)
    if length <= LIMIT:
        tokenized = reranker.tokenize(QUERY, document, truncate=False)
        assert tokenized.usage == TokenUsage(length, length)
    else:
        with pytest.raises(TextTooLong) as refusal:
            reranker.tokenize(QUERY, document, truncate=False)
        assert refusal.value.metadata == {"tokens": str(length), "limit": str(LIMIT)}
        tokenized = reranker.tokenize(QUERY, document, truncate=True)
        # QUERY has fewer than 64 tokens, and counts as 64 where a document is cut.
        asked = len(tokenized.query_ids) - 2
        assert tokenized.usage == TokenUsage(length, LIMIT - 64 + asked)
        whole = reranker.tokenize(QUERY, document_of(reranker, LIMIT), truncate=False)
        assert tokenized.document_ids[:-1].tolist() == whole.document_ids[: LIMIT - 64 - 2].tolist()
    assert len(tokenized.token_ids) == tokenized.usage.used
    assert reranker.score([tokenized]).errors == {}


def test_a_long_document_is_cut_alike_beside_queries_of_a_like_length(reranker, recorded):
    document = "memory " * 600
    texts = ["why", QUERY, "why " * 64, "why " * 65]
    pairs = [reranker.tokenize(query, document, truncate=True) for query in texts]
    assert [len(pair.document_ids) for pair in pairs] == [LIMIT - 1 - 64] * 3 + [LIMIT - 1 - 128]
    assert all(pair.usage.used <= LIMIT for pair in pairs)
    reranker.score(pairs)
    assert len(recorded.texts) == len(texts) + 2


def test_a_query_that_leaves_no_room_is_never_cut(reranker):
    with pytest.raises(TextTooLong, match="shorten the query"):
        reranker.tokenize("why " * (LIMIT - 3), "because", truncate=True)
    kept = reranker.tokenize("why " * (LIMIT - 4), "because of it", truncate=True)
    assert len(kept.document_ids) == 3


@pytest.mark.parametrize(
    ("query", "document", "reason"),
    [
        ("", "a", "empty"),
        ("a", " \n", "empty"),
        ("a", "\u200b", "invisible"),
        ("\u200b", "a", "invisible"),
        ("a", "\ud83d", "surrogate"),
        ("\ud83d", "a", "surrogate"),
    ],
)
def test_halves_with_nothing_to_read(reranker, query, document, reason):
    with pytest.raises(InvalidInput, match=reason):
        reranker.tokenize(query, document, truncate=True)


def test_an_empty_batch(reranker):
    with pytest.raises(InvalidInput, match="at least one"):
        reranker.score([])


def test_it_takes_no_instruction(reranker):
    with pytest.raises(NotSupported, match="Qwen3-Reranker"):
        reranker.tokenize(QUERY, "a", truncate=False, instruction="Find what helps")


def test_not_a_number_fails_its_own_pair_alone(reranker, monkeypatch):
    documents = ["a walk", "zebra", "the long way home"]
    sound = score(reranker, QUERY, documents)
    poisoned = reranker.tokenize(QUERY, "zebra", truncate=False).document_ids[1]
    monkeypatch.setattr(reranker, "_graph", RecordingGraph(reranker._graph, poisoned))
    batch = reranker.score([reranker.tokenize(QUERY, document, truncate=False) for document in documents])
    assert list(batch.errors) == [1]
    assert isinstance(batch.errors[1], NumericsError) and batch.scores[1] == 0.0
    np.testing.assert_array_equal(batch.scores[[0, 2]], sound[[0, 2]])


def test_a_runtime_that_fails_is_said_to(reranker, monkeypatch):
    class Broken:
        def run(self, *_: object) -> None:
            raise RuntimeError("out of memory")

    monkeypatch.setattr(reranker._graph, "_session", Broken())
    with pytest.raises(ModelUnavailable, match="RuntimeError"):
        score(reranker, QUERY, ["a"])


def test_it_is_loaded_by_name_and_proven(monkeypatch: pytest.MonkeyPatch):
    proven = []
    check = RerankerGuard.check
    monkeypatch.setattr(RerankerGuard, "check", lambda guard: proven.append(check(guard)))
    small = load_reranker(ModelChoice("minilm", max_tokens=64))
    assert isinstance(small, LateInteractionReranker) and len(proven) == 1
    assert small.card.max_tokens == 64 and small.card.fingerprint != CARD.fingerprint
    assert load_reranker(ModelChoice("minilm", max_tokens=8_192)).card == CARD


def test_vectors_that_depend_on_the_batch_are_not_served(monkeypatch: pytest.MonkeyPatch):
    honest = TokenGraph.token_vectors

    def leaking(graph: TokenGraph, texts: Sequence[np.ndarray]) -> list[np.ndarray]:
        vectors = honest(graph, texts)
        return [rows * np.float32(1 - 0.02 * len(texts)) for rows in vectors]

    monkeypatch.setattr(TokenGraph, "token_vectors", leaking)
    with pytest.raises(NumericsError, match="batch_equals_single"):
        load_reranker(ModelChoice("minilm"))


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (ModelChoice("minilm", Runtime.TORCH), "onnx"),
        (ModelChoice("minilm", query_task="Judge"), "query_task"),
        (ModelChoice("minilm", dimension=64), "dimension"),
        (ModelChoice("minilm", max_tokens=7), "max_tokens"),
        (ModelChoice("minilm", threads=0), "threads"),
    ],
)
def test_what_it_cannot_do_is_refused(choice: ModelChoice, reason: str):
    with pytest.raises(ConfigurationError, match=reason):
        load_reranker(choice)


WORDS = st.lists(
    st.sampled_from(["who", "dana", "invoices", "?", "", "東京", "did", "_", "Peanuts"]), min_size=1
)
TABLES = st.dictionaries(st.sampled_from(["dana", "invoic", "peanut"]), st.floats(0, 12))


@given(WORDS, TABLES)
def test_weights_can_always_be_shared_out(words: list[str], table: dict[str, float]):
    weights = word_weights(words, table)
    assert weights.shape == (len(words),) and weights.dtype == np.float32
    assert (weights >= 0).all() and np.isfinite(weights).all() and weights.any()


def test_how_much_a_word_counts():
    words = ["Who", "paid", "Dana", "'", "invoices", "Zanzibar", "?"]
    table = {"paid": 2.0, "dana": 1.0, "invoic": 4.0, "ignored": 9.0}
    stop = STOP_WORD_SHARE * (2 + 1 + 4 + 4) / 4
    np.testing.assert_allclose(word_weights(words, table), [stop, 2, 1, 0, 4, 4, 0], rtol=1e-6)
    np.testing.assert_allclose(word_weights(words), [STOP_WORD_SHARE, 1, 1, 0, 1, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(word_weights(["who", "was", "?"]), [STOP_WORD_SHARE, STOP_WORD_SHARE, 0])
    np.testing.assert_allclose(word_weights(["?", "!"]), [1, 1])


def test_the_longer_a_query_the_less_its_score_counts_in_a_search(reranker):
    queries = [QueryTerms(("x",) * terms, ("latin",) * terms) for terms in (0, 1, 3, 6, 30)]
    shares = [reranker.search_share(query) for query in queries]
    assert shares == pytest.approx([0.7, 0.7, 0.7, 0.7 / 4, 0.7 / 100])


def test_it_judges_no_words_that_the_model_cannot_read(reranker):
    queries = ("चाय कहाँ है", "chai kahan hai", "tea चाय", "tea 7")
    shares = [reranker.search_share(QueryTerms.of(query)) for query in queries]
    assert shares == pytest.approx([0.0, 0.0, 0.35, 0.7])
