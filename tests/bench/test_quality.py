import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.bench.locomo import load_demo_conversation
from precall.bench.quality_measures import interval, judge
from precall.bench.quality_methods import (
    EncodedSet,
    score_bm25,
    score_dense,
    score_fast,
    score_keyword_leg,
    score_rank_fusion,
)  # fmt: skip
from precall.bench.quality_sets import (
    TRAINING_CLAIMS,
    LabelledQuery,
    LabelledSet,
    QualitySetError,
    conversation_set,
    load_hinglish,
    load_madial,
    load_scifact,
    load_xquad,
    sampled,
    unconnected,
)  # fmt: skip
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.scoring.fusion import Fusion

MEMORIES = ("Dana flies to Pune", "the cat sleeps", "Pune is hot in May", "a train to Delhi")


class LetterEncoder:
    """A vector of letter counts; counts what it was asked to encode."""

    card = ModelCard("letters", "1", "0" * 64, dimension=26, max_tokens=512, pooling=Pooling.MEAN)

    def __init__(self) -> None:
        self.encoded = 0

    def tokenize(self, text: str, role: TextRole, *, truncate: bool) -> TokenizedText:
        letters = [ord(each) - ord("a") for each in text.lower() if "a" <= each <= "z"]
        return TokenizedText(np.array(letters, np.int64), TokenUsage(len(letters), len(letters)))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        self.encoded += len(texts)
        counts = np.stack([np.bincount(text.token_ids, minlength=26) for text in texts]).astype(np.float32)
        return EncodedBatch(counts / np.linalg.norm(counts, axis=1, keepdims=True))

    def close(self) -> None:
        pass


def encoded(
    memories: Sequence[str], queries: Sequence[str], context: Sequence[int | None] = ()
) -> EncodedSet:
    labelled = LabelledSet(
        "made up",
        tuple(memories),
        tuple(LabelledQuery(query, (0,)) for query in queries),
        tuple(context) or (None,) * len(memories),
    )
    random = np.random.default_rng(1)
    return EncodedSet(labelled, unit(random, len(queries)), unit(random, len(memories)))


def unit(random: np.random.Generator, rows: int) -> NDArray[np.float32]:
    vectors = random.normal(size=(rows, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_measures_of_a_ranking_worked_out_by_hand() -> None:
    scores = np.zeros((2, 60), np.float32)
    scores[0, [4, 7, 20]] = 3, 2, 1
    scores[1, 59] = -1
    measures = judge(scores, [[4, 20], [59]])
    assert measures.recall_10.tolist() == [1.0, 0.0]
    assert measures.recall_50.tolist() == [1.0, 0.0]
    # Found first and third of three; the best would have been first and second.
    assert measures.ndcg_10[0] == pytest.approx((1 + 1 / np.log2(4)) / (1 + 1 / np.log2(3)))
    assert measures.ndcg_10[1] == 0


def test_more_answers_than_ten_can_still_be_ranked_perfectly() -> None:
    scores = np.arange(30, 0, -1, dtype=np.float32)[None]
    measures = judge(scores, [range(20)])
    assert measures.recall_10[0] == 0.5
    assert measures.ndcg_10[0] == pytest.approx(1.0)


def test_an_interval_holds_its_mean_and_comes_out_the_same_again() -> None:
    values = np.random.default_rng(3).random(200)
    first = interval(values)
    assert first == interval(values)
    assert first.low < first.mean < first.high
    # The standard error of the mean is about .29 / sqrt(200) = .02, and the interval two of them each way.
    assert 0.06 < first.high - first.low < 0.10


def test_bm25_worked_out_by_hand() -> None:
    scores = score_bm25(encoded(MEMORIES, ["PUNE trains"]))
    # Two of four documents hold "pune"; nothing is stemmed, so "trains" finds nothing.
    idf = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    mean = np.mean([len(text.split()) for text in MEMORIES])
    norm = 1.2 * (1 - 0.75 + 0.75 * 4 / mean)
    assert scores[0, 0] == pytest.approx(idf * 2.2 / (1 + norm), rel=1e-5)
    assert scores[0, 2] < scores[0, 0], "the longer document weighs less"
    assert scores[0, [1, 3]].tolist() == [0, 0]


def test_rank_fusion_sees_ranks_only() -> None:
    example = encoded(MEMORIES, ["Pune", "cat"])
    fused = score_rank_fusion(example)
    stretched = EncodedSet(example.labelled, example.queries * 5, example.memories)
    assert np.array_equal(fused, score_rank_fusion(stretched))
    best = int(score_bm25(example)[1].argmax())
    place = int((-score_dense(example)[1]).argsort().tolist().index(best))
    assert fused[1, best] == pytest.approx(1 / 61 + 1 / (61 + place), rel=1e-5)


def test_fast_is_the_formula_that_searches_use() -> None:
    example = encoded(MEMORIES, ["when does Dana fly to Pune?"])
    fusion = Fusion.of(["dana", "fli", "pune"])
    keyword = fusion.saturate(score_keyword_leg(example)[0])
    expected = fusion.relevance(score_dense(example)[0], keyword)
    assert score_fast(example)[0] == pytest.approx(expected)
    assert keyword[0] > keyword[2] > 0 == keyword[1]


def test_an_answer_is_found_by_the_question_before_it() -> None:
    memories = ("a cat", "How was the trip to Pune?", "Lovely, thank you!", "a dog", "Some more tea?")
    example = encoded(memories, ["Pune trip"], (None, 0, 1, None, 3))
    same = np.full((5, 8), 8**-0.5, np.float32)
    scores = score_fast(EncodedSet(example.labelled, same[:1], same))[0]
    assert scores.argmax() == 1
    assert scores[2] > scores[[0, 3, 4]].max()


def test_questions_and_turns_of_a_conversation_become_a_set() -> None:
    conversation = load_demo_conversation()
    made = conversation_set(conversation)
    assert made.name == "locomo-held-out"
    assert conversation_set(replace(conversation, id="26")).name == "locomo-fitted"
    asked = [question for question in conversation.questions if question.evidence]
    assert [query.text for query in made.queries] == [question.question for question in asked]
    answered = made.queries[0].relevant
    assert [conversation.turns[row].dia_id for row in answered] == list(asked[0].evidence)
    for row, turn in enumerate(conversation.turns):
        assert made.memories[row] == f"{turn.speaker}: {turn.text}"
        begins = row == 0 or conversation.turns[row - 1].session != turn.session
        assert made.context[row] == (None if begins else row - 1)


def test_scifact_reads_printed_arrays_and_merges_the_lines_of_a_claim(tmp_path: Path) -> None:
    (tmp_path / "corpus_train.csv").write_text(
        'doc_id,title,abstract\n7,First.,"[\'One.\'\n \'Two.\']"\n9,Second.,"[""It\'s three.""]"\n'
    )
    (tmp_path / "claims_validation.csv").write_text(
        "id,claim,cited_doc_ids\n1,A claim,[7]\n1,A claim,[7 9]\n2,Uncited,[]\n3,Lost,[5]\n"
    )
    (made,) = load_scifact(tmp_path)
    assert made.memories == ("First. One. Two.", "Second. It's three.")
    assert (made.name, made.queries) == ("scifact", (LabelledQuery("A claim", (0, 1)),))
    (tmp_path / TRAINING_CLAIMS).write_text("id,claim,cited_doc_ids\n4,Another,[9]\n")
    (training,) = load_scifact(tmp_path, TRAINING_CLAIMS)
    assert (training.name, training.queries) == ("scifact-training", (LabelledQuery("Another", (1,)),))


def test_xquad_asks_each_paragraph_in_its_language(tmp_path: Path) -> None:
    for language in ("en", "hi", "zh", "ar"):
        paragraphs = [
            {"context": f"{language} one", "qas": []},
            {"context": f"{language} two", "qas": [{"question": f"{language}?"}]},
        ]
        document = {"data": [{"paragraphs": paragraphs}]}
        (tmp_path / f"xquad.{language}.json").write_text(json.dumps(document))
    made = load_xquad(tmp_path)
    assert [each.name for each in made] == ["xquad-en", "xquad-hi", "xquad-zh", "xquad-ar"]
    assert made[1].queries == (LabelledQuery("hi?", (1,)),)
    (tmp_path / "xquad.ar.json").write_text("{}")
    with pytest.raises(QualitySetError, match=r"xquad\.ar\.json"):
        load_xquad(tmp_path)


def test_madial_asks_with_what_the_user_said_before_the_memory_was_recalled(tmp_path: Path) -> None:
    dialogue = {
        "dialogue": [
            "<BOD>\n", '<Bart>: "First."\n', '<Assistant>: "Well."\n', '<Bart>\uff1a"Second."\n',
            '<Assistant>: "You danced!"\n', '<Bart>: "Too late."\n',
        ],
        "test-turn": [4, 6],
        "relevant-id": [3, 8, 3, 99],
    }  # fmt: skip
    memories = [{"8": {"event": "Bart sang."}}, {"3": {"event": "Bart danced."}}]
    for language in ("en", "zh"):
        lines = "\n".join(json.dumps(each) for each in memories)
        (tmp_path / f"MADial-Bench-{language}-memory.json").write_text(lines)
        (tmp_path / f"MADial-Bench-{language}-dialogue.json").write_text(json.dumps(dialogue))
    made = load_madial(tmp_path)[0]
    assert made.memories == ("Bart sang.", "Bart danced.")
    assert made.queries == (LabelledQuery("First. Second.", (1, 0)),)


def test_hinglish_utterances_ask_for_their_twin(tmp_path: Path) -> None:
    (tmp_path / "hinglish_english_user_pairs.tsv").write_text(
        'hinglish\tenglish\tcount\nphone number kya hai\twhat "phone number\t2\n'
        'number do\tthe number\t1\nphone number batao\twhat "phone number\t1\n'
    )
    (made,) = load_hinglish(tmp_path)
    assert made.memories == ('what "phone number', "the number")
    assert [query.relevant for query in made.queries] == [(0,), (1,), (0,)]


def test_a_sample_is_spread_evenly_and_named_as_one() -> None:
    whole = unconnected("made up", MEMORIES, [LabelledQuery(str(n), (0,)) for n in range(10)])
    sample = sampled(whole, 4)
    assert sample.name == "made up (4 of 10)"
    assert [query.text for query in sample.queries] == ["0", "2", "5", "7"]
    assert sampled(whole, 10) is whole


@pytest.mark.parametrize("rows", [(), (0, 0), (4,), (-1,)])
def test_a_query_needs_answers_that_exist(rows: tuple[int, ...]) -> None:
    with pytest.raises(QualitySetError, match="is answered by"):
        unconnected("made up", MEMORIES, [LabelledQuery("who?", rows)])


def test_texts_are_encoded_once_and_kept_as_memories_are(tmp_path: Path) -> None:
    encoder = LetterEncoder()
    texts = ["a long text about letters", "b", *MEMORIES] * 10
    vectors = VectorCache(encoder, tmp_path / "new").vectors(texts, TextRole.DOCUMENT)
    direct = encoder.encode([encoder.tokenize(t, TextRole.DOCUMENT, truncate=True) for t in texts]).vectors
    assert np.array_equal(vectors, direct.astype(np.float16).astype(np.float32))
    encoder.encoded = 0
    again = VectorCache(encoder, tmp_path / "new")
    assert np.array_equal(again.vectors(texts, TextRole.DOCUMENT), vectors)
    assert encoder.encoded == 0
    again.vectors(texts, TextRole.QUERY)
    again.vectors(["ab", "c"], TextRole.QUERY)
    again.vectors(["a", "bc"], TextRole.QUERY)
    assert encoder.encoded == len(texts) + 4
