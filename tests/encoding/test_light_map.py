"""The map from a small model's space to a large one's, its texts and its measure."""

import math
from pathlib import Path

import numpy as np
import pytest

from precall.engine.encoding.light_agreement import Agreement
from precall.engine.encoding.light_map import LearnedMap
from precall.engine.encoding.light_texts import NeutralTexts

WORDS = ("apple", "brick", "cloud", "drum", "eagle")


def units(count: int, dimension: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_space_that_is_another_one_turned_is_found_again() -> None:
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(24, 16)))[0].T.astype(np.float32)
    seen, unseen = units(2_000, 16, seed=2), units(50, 16, seed=3)
    learned = LearnedMap.fitted(seen, seen @ turn)
    mapped = learned(unseen)
    assert mapped.dtype == np.float32 and mapped.shape == (50, 24)
    assert np.vecdot(mapped, unseen @ turn).min() > 0.999


def test_what_all_vectors_of_the_large_model_share_is_learned_too() -> None:
    seen, unseen = units(500, 8, seed=2), units(50, 8, seed=3)
    shared = units(1, 8, seed=4) * 3

    def large(small: np.ndarray) -> np.ndarray:
        return (small + shared) / np.linalg.norm(small + shared, axis=1, keepdims=True)

    learned = LearnedMap.fitted(seen, large(seen))
    assert np.vecdot(learned(unseen), large(unseen)).min() > 0.98
    assert np.vecdot(learned(unseen), large(unseen)).mean() > np.vecdot(shared / 3, large(unseen)).mean()


def test_the_file_is_rows_and_nothing_that_runs(tmp_path: Path) -> None:
    learned = LearnedMap.fitted(units(50, 4, seed=1), units(50, 6, seed=2))
    learned.write(tmp_path / "map.npy")
    rows = np.load(tmp_path / "map.npy", allow_pickle=False)
    assert rows.dtype == np.float32 and rows.shape == (5, 6)
    assert np.array_equal(rows, learned.rows)


def test_agreement_tells_a_shift_that_changes_no_order_from_noise() -> None:
    documents, queries = units(400, 32, seed=1), units(60, 32, seed=2)
    same = Agreement.measured(queries, queries, documents)
    assert same.cosine == pytest.approx(1.0) and same.top_ten_overlap == 1.0
    assert same.distance == pytest.approx(0.0, abs=1e-6) and same.score == pytest.approx(0.0, abs=1e-6)

    noisy = queries + 0.4 * units(60, 32, seed=3)
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    noise = Agreement.measured(noisy, queries, documents)
    assert 0.3 < noise.top_ten_overlap < 1.0 and 0.3 < noise.distance < 0.6
    errors = (noisy @ documents.T - queries @ documents.T).std(axis=1)
    assert np.median(errors) <= noise.score <= errors.max()

    common = documents.mean(axis=0) * 0 + 1 / math.sqrt(32)  # a direction that all documents now share
    alike = documents + 5 * common
    alike /= np.linalg.norm(alike, axis=1, keepdims=True)
    shifted = queries + 0.4 * common
    shifted /= np.linalg.norm(shifted, axis=1, keepdims=True)
    shift = Agreement.measured(shifted.astype(np.float32), queries, alike.astype(np.float32))
    assert shift.distance > 0.25 and shift.score < noise.score / 2


class TestTexts:
    def test_they_are_the_same_wherever_they_are_made(self) -> None:
        texts = NeutralTexts(WORDS)
        assert texts.questions(20) == NeutralTexts(WORDS).questions(20)
        assert texts.questions(20) != NeutralTexts(WORDS, seed=1).questions(20)
        assert texts.questions(20) == texts.questions(40)[:20]
        assert not set(texts.statements(20)) & set(texts.questions(20))

    def test_every_slot_is_filled_with_the_words(self) -> None:
        made = " ".join(NeutralTexts(WORDS).questions(300) + NeutralTexts(WORDS).statements(300))
        assert "{" not in made and "}" not in made
        assert all(word in made for word in WORDS)

    def test_of_a_vocabulary_only_whole_words_are_taken(self) -> None:
        vocabulary = ["[CLS]", "##ing", "drum", "apple", "a", "été", "12", "don't"]
        assert list(NeutralTexts.of_vocabulary(vocabulary).words) == ["apple", "drum"]
