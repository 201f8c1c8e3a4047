"""Packing, passes and sizes are plain numpy; that padding changes no row is proved through the model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.encoding.packing_buckets import PackingBuckets
from precall.engine.encoding.packing_texts import PackedTexts, cut_passes
from precall.engine.errors import ModelUnavailable

lengths_lists = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def texts_of(lengths):
    return [np.arange(length, dtype=np.int64) + 100 * row for row, length in enumerate(lengths)]


def parts_of(packed: PackedTexts):
    tokens, texts = packed.tokens, len(packed.lengths)
    assert packed.buffer.dtype == np.int32 and len(packed.buffer) == 2 * tokens + 2 * texts + 1
    return np.split(packed.buffer, [tokens, 2 * tokens, 2 * tokens + texts + 1])


@given(lengths_lists)
def test_a_pack_gives_every_text_back(lengths):
    texts = texts_of(lengths)
    ids, positions, offsets, ends = parts_of(PackedTexts.of(texts))
    for row, text in enumerate(texts):
        rows = slice(offsets[row], offsets[row + 1])
        assert ids[rows].tolist() == text.tolist()
        assert positions[rows].tolist() == list(range(len(text)))
        assert ids[ends[row]] == text[-1]


@given(lengths_lists, st.integers(0, 30), st.integers(1, 5))
def test_padding_leaves_the_texts_as_they_were(lengths, spare, more):
    packed = PackedTexts.of(texts_of(lengths))
    tokens, texts = packed.tokens + spare, len(lengths) + more
    padded = packed.padded_to(tokens, texts)
    assert padded.tokens == tokens and len(padded.lengths) == texts
    ids, positions, offsets, ends = parts_of(packed)
    padded_ids, padded_positions, padded_offsets, padded_ends = parts_of(padded)
    assert padded_ids[: packed.tokens].tolist() == ids.tolist()
    assert padded_positions[: packed.tokens].tolist() == positions.tolist()
    assert padded_offsets[: len(offsets)].tolist() == offsets.tolist()
    assert padded_ends[: len(ends)].tolist() == ends.tolist()
    assert np.diff(padded_offsets).tolist() == list(padded.lengths)
    assert padded_ends.max() < tokens


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.integers(1, 600))
def test_passes_cover_all_rows_in_order_within_the_budget(lengths, pass_tokens):
    passes = cut_passes(lengths, pass_tokens)
    assert [row for rows in passes for row in rows] == list(range(len(lengths)))
    for rows, following in zip(passes, [*passes[1:], None], strict=True):
        tokens = sum(lengths[row] for row in rows)
        assert tokens <= pass_tokens or len(rows) == 1
        if following is not None:
            assert tokens + lengths[following[0]] > pass_tokens


def test_the_smallest_size_with_room_is_chosen():
    buckets = PackingBuckets(tokens=(16, 32, 64), texts=2)
    assert [buckets.choose(tokens, 1) for tokens in (1, 16, 17, 32, 33, 64, 65)] == [
        16,
        16,
        32,
        32,
        64,
        64,
        None,
    ]
    assert buckets.choose(8, 2) == 16
    assert buckets.choose(8, 3) is None


@given(st.integers(1, 512))
def test_padding_is_never_more_than_half_of_a_small_pass(tokens):
    chosen = PackingBuckets().choose(tokens, 1)
    assert chosen is not None and (chosen == 16 or chosen <= 1.5 * tokens)


@pytest.fixture(scope="module")
def model():
    import torch

    from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
    from precall.engine.encoding.qwen3_model import Qwen3Model
    from precall.engine.encoding.qwen3_weights import Qwen3Layer, Qwen3Weights
    from precall.engine.encoding.torch_attention import text_by_text_attention

    torch.manual_seed(0)
    shape = Qwen3Architecture(512, 32, 64, 2, 4, 2, 16, 1e-6, 1e4, 512, True)
    layers = [
        Qwen3Layer(
            attention_norm=torch.ones(32),
            query_key_value=torch.randn(128, 32) / 4,
            query_norm=torch.ones(16),
            key_norm=torch.ones(16),
            attention_output=torch.randn(32, 64) / 4,
            mlp_norm=torch.ones(32),
            gate_up=torch.randn(128, 32) / 4,
            down=torch.randn(32, 64) / 4,
        )
        for _ in range(2)
    ]
    weights = Qwen3Weights(torch.randn(512, 32), tuple(layers), torch.ones(32), None)
    return Qwen3Model(shape, weights, text_by_text_attention)


def test_padding_changes_no_row(model):
    import torch

    from precall.engine.encoding.torch_attention import PackedTensors

    packed = PackedTexts.of([np.arange(length) for length in (5, 1, 17)])
    padded = packed.padded_to(32, 9)
    rows = model.last_hidden(PackedTensors.of(torch.from_numpy(packed.buffer), packed))
    recorded = model.last_hidden(PackedTensors.of(torch.from_numpy(padded.buffer), padded, longest=32))
    assert recorded.shape[0] == 9
    torch.testing.assert_close(recorded[:3], rows)


def test_a_replay_is_taken_where_it_has_room_and_else_the_plain_pass(model):
    import torch

    from precall.engine.encoding.torch_attention import PackedTensors
    from precall.engine.encoding.torch_device import Placement
    from precall.engine.encoding.torch_runner import PackedRunner

    buckets = PackingBuckets(tokens=(8, 16), texts=2)
    taken: list[int | None] = []

    def replay(packed):
        tokens = buckets.choose(packed.tokens, len(packed.lengths))
        taken.append(tokens)
        if tokens is None:
            return None
        padded = packed.padded_to(tokens, 3)
        return model.last_hidden(PackedTensors.of(torch.from_numpy(padded.buffer), padded))[
            : len(packed.lengths)
        ]

    placement = Placement.choose("cpu", "float32")
    plain = PackedRunner(model.last_hidden, placement, pass_tokens=20)
    replayed = PackedRunner(model.last_hidden, placement, pass_tokens=20, replay=replay)
    texts = [np.arange(length) for length in (3, 9, 14, 2, 18)]
    np.testing.assert_allclose(replayed.run(texts), plain.run(texts), rtol=1e-4, atol=1e-5)
    assert taken == [16, 16, None]


@pytest.mark.parametrize("failure", ["OutOfMemoryError", "RuntimeError"])
def test_a_device_that_fails_once_serves_the_next_batch(model, failure):
    import torch

    from precall.engine.encoding.torch_device import Placement
    from precall.engine.encoding.torch_runner import PackedRunner

    failures = [getattr(torch, failure, RuntimeError)("no")]

    def forward(batch):
        if failures:
            raise failures.pop()
        return model.last_hidden(batch)

    runner = PackedRunner(forward, Placement.choose("cpu", "float32"))
    with pytest.raises(ModelUnavailable, match=r"pass of 3 tokens|with 3 tokens"):
        runner.run([np.arange(3)])
    assert runner.run([np.arange(3)]).shape == (1, 32)


def test_a_token_that_the_model_does_not_know(model):
    from precall.engine.encoding.torch_device import Placement
    from precall.engine.encoding.torch_runner import PackedRunner

    runner = PackedRunner(model.last_hidden, Placement.choose("cpu", "float32"))
    with pytest.raises(ModelUnavailable):
        runner.run([np.array([512])])
