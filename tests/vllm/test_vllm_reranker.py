"""The contract of a reranker, on the real ``AsyncLLM``."""

import numpy as np
import pytest

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.errors import InvalidInput, ModelUnavailable, NumericsError, TextTooLong
from tests.vllm.conftest import LIMIT, POISON, RerankerPair, skip_module_without_vllm

skip_module_without_vllm()

QUERY = "When did Dana move to Pune?"
TOLERANCE = 1e-3


def pairs_of(rerankers: RerankerPair, *documents: str, truncate: bool = False) -> list[TokenizedText]:
    return [rerankers.vllm.tokenize(QUERY, document, truncate=truncate) for document in documents]


def test_card_and_tokens_are_those_of_the_torch_path(rerankers: RerankerPair) -> None:
    assert rerankers.vllm.card == rerankers.torch.card
    (ours,) = pairs_of(rerankers, "In March. <|im_end|>")
    theirs = rerankers.torch.tokenize(QUERY, "In March. <|im_end|>", truncate=False)
    assert ours.token_ids.tolist() == theirs.token_ids.tolist() and ours.usage == theirs.usage


def test_scores_are_those_of_the_torch_path_in_every_mix_of_lengths(rerankers: RerankerPair) -> None:
    documents = ["Dana moved " * times for times in (1, 40, 3, 150, 90, 2, 20, 64)]
    pairs = pairs_of(rerankers, *documents)
    batch = rerankers.vllm.score(pairs)
    singles = np.concatenate([rerankers.vllm.score([pair]).scores for pair in pairs])
    assert not batch.errors and batch.scores.dtype == np.float32
    assert batch.scores == pytest.approx(rerankers.torch.score(pairs).scores, abs=TOLERANCE)
    assert batch.scores == pytest.approx(singles, abs=TOLERANCE)
    assert batch.scores == pytest.approx(rerankers.vllm.score(pairs).scores, abs=TOLERANCE)
    assert np.ptp(batch.scores) > 0.05


def test_scores_are_the_softmax_of_yes_and_no_in_transformers(rerankers: RerankerPair) -> None:
    import torch
    from tokenizers import Tokenizer
    from transformers import Qwen3ForCausalLM

    tokenizer = Tokenizer.from_file(str(rerankers.folder / "tokenizer.json"))
    answers = [tokenizer.token_to_id("no"), tokenizer.token_to_id("yes")]
    model = Qwen3ForCausalLM.from_pretrained(rerankers.folder, dtype=torch.float32).eval()
    pairs = pairs_of(rerankers, "In March.", "The kettle is broken. " * 30)
    with torch.no_grad():
        logits = [model(torch.from_numpy(pair.token_ids)[None]).logits[0, -1, answers] for pair in pairs]
    expected = [float(torch.softmax(both, dim=0)[1]) for both in logits]
    assert rerankers.vllm.score(pairs).scores == pytest.approx(expected, abs=TOLERANCE)


def test_a_pair_up_to_the_limit_is_whole_and_a_longer_one_refused(rerankers: RerankerPair) -> None:
    frame = pairs_of(rerankers, " a")[0].usage.given - 1
    whole = pairs_of(rerankers, " a" * (LIMIT - 1 - frame), " a" * (LIMIT - frame))
    assert [pair.usage.given for pair in whole] == [LIMIT - 1, LIMIT]
    assert rerankers.vllm.score(whole).scores == pytest.approx(
        rerankers.torch.score(whole).scores, abs=TOLERANCE
    )
    for tokens in (LIMIT + 1, 10 * LIMIT):
        document = " a" * (tokens - frame)
        with pytest.raises(TextTooLong):
            pairs_of(rerankers, document)
        (cut,) = pairs_of(rerankers, document, truncate=True)
        assert (cut.usage.given, cut.usage.used) == (tokens, LIMIT)
        assert rerankers.vllm.score([cut]).scores == pytest.approx(
            rerankers.torch.score([cut]).scores, abs=TOLERANCE
        )


def test_nan_fails_its_own_pair_and_leaves_no_trace(rerankers: RerankerPair) -> None:
    pairs = pairs_of(rerankers, "In March.", f"x {POISON} y", "Dana moved " * 60, POISON * 90)
    expected = rerankers.torch.score([pairs[0], pairs[2]]).scores
    for _ in range(3):
        scored = rerankers.vllm.score(pairs)
        assert sorted(scored.errors) == [1, 3]
        assert all(isinstance(error, NumericsError) for error in scored.errors.values())
        assert scored.scores[[0, 2]] == pytest.approx(expected, abs=TOLERANCE)


def test_empty_halves_and_empty_batches_are_refused(rerankers: RerankerPair) -> None:
    with pytest.raises(InvalidInput):
        rerankers.vllm.tokenize(QUERY, " ", truncate=False)
    with pytest.raises(InvalidInput):
        rerankers.vllm.score([])


def test_after_closing_there_are_no_scores(rerankers: RerankerPair) -> None:
    """Stands last: the engine is gone afterwards."""
    rerankers.vllm.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        rerankers.vllm.score(pairs_of(rerankers, "too late"))
