"""Pooled vectors are those of the formula, and their codes those that the index makes of them."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from precall.engine.encoding.card import Pooling
from precall.engine.index import quantizer
from precall.engine.index.coder import flat_index
from precall.kernels.errors import KernelInputError
from precall.kernels.launch import Launch
from precall.kernels.pooling import CLS, LAST_TOKEN, MEAN, POOLINGS, CodeRanges, pool, pool_reference
from tests.fakes.memories import clustered

TOLERANCES = [
    # dtype of the states, atol, rtol: of vectors, whose last digit a sum in another order may turn
    (torch.float32, 6.2e-5, 1e-3),
    (torch.float16, 6.2e-5, 1e-3),
    (torch.bfloat16, 6.2e-5, 1e-3),
]
LENGTHS = (1, 7, 0, 33, 2)


def packed(lengths, hidden, generator, device, dtype=torch.float32):
    states = (torch.randn((sum(lengths), hidden), generator=generator) * 3).to(dtype).to(device)
    bounds = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)
    return states, bounds


def trained_ranges(dimension, device):
    ranges = quantizer.train(clustered(400, dimension, seed=5))
    return CodeRanges(torch.from_numpy(ranges.minimum).to(device), torch.from_numpy(ranges.span).to(device))


def test_it_knows_every_pooling_that_a_card_can_have():
    assert {pooling.value for pooling in Pooling} == set(POOLINGS)


@pytest.mark.parametrize(("dtype", "atol", "rtol"), TOLERANCES)
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(("hidden", "dimension"), [(384, None), (48, 17), (1_024, 1_000), (3, 1)])
def test_vectors_are_those_of_the_formula(dtype, atol, rtol, pooling, hidden, dimension, generator, device):
    states, bounds = packed(LENGTHS, hidden, generator, device, dtype)
    found = pool(states, bounds, pooling, dimension=dimension)
    expected = pool_reference(states, bounds, pooling, dimension=dimension)
    assert found.vectors.dtype == torch.float16 and found.codes is None
    torch.testing.assert_close(found.vectors, expected.vectors, atol=atol, rtol=rtol, equal_nan=True)
    torch.testing.assert_close(found.lengths, expected.lengths, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bounds_dtype", [torch.int32, torch.int64])
def test_a_text_of_more_tokens_than_a_tile_has(bounds_dtype, generator, device):
    states, bounds = packed((5_000, 3), 16, generator, device)
    found = pool(states, bounds.to(bounds_dtype), MEAN)
    expected = pool_reference(states, bounds, MEAN)
    torch.testing.assert_close(found.vectors, expected.vectors, atol=6.2e-5, rtol=1e-3)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_codes_are_those_that_the_index_makes_of_the_vectors(pooling, generator, device):
    dimension = 96
    states, bounds = packed((3,) * 60, 128, generator, device)
    ranges = trained_ranges(dimension, device)
    ranges.span.mul_(0.4)
    ranges.minimum.mul_(0.4)
    found = pool(states, bounds, pooling, dimension=dimension, ranges=ranges)
    trained = quantizer.Ranges(ranges.minimum.cpu().numpy(), ranges.span.cpu().numpy())
    expected = flat_index(trained).sa_encode(found.vectors.float().cpu().numpy())
    assert found.codes.cpu().numpy().tolist() == expected.tolist()
    assert 0 < (found.codes == 0).sum() < found.codes.numel()  # some saturate
    assert 0 < (found.codes == 255).sum() < found.codes.numel()


def test_codes_are_those_of_the_formula(generator, device):
    states, bounds = packed(LENGTHS, 40, generator, device)
    ranges = trained_ranges(40, device)
    ranges.span[3] = 0.0
    found = pool(states, bounds, LAST_TOKEN, ranges=ranges)
    expected = pool_reference(states, bounds, LAST_TOKEN, ranges=ranges)
    there = [0, 1, 3, 4]
    torch.testing.assert_close(found.vectors[there], expected.vectors[there], atol=6.2e-5, rtol=1e-3)
    apart = (found.codes[there].int() - expected.codes[there].int()).abs()
    assert apart.max() <= 1 and (found.vectors[there] == expected.vectors[there])[apart == 1].sum() == 0
    assert (found.codes[:, 3] == 0).all()


def test_it_cuts_before_it_normalises(generator, device):
    states, bounds = packed((4, 1), 64, generator, device)
    cut = pool(states[:, :16].contiguous(), bounds, MEAN)
    assert torch.equal(pool(states, bounds, MEAN, dimension=16).vectors, cut.vectors)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 0.0])
def test_what_is_no_vector_says_so_and_harms_no_other(pooling, broken, generator, device):
    states, bounds = packed((2, 0, 3, 1), 32, generator, device)
    whole = pool(states, bounds, pooling, ranges=trained_ranges(32, device))
    states[2:5] = broken
    found = pool(states, bounds, pooling, ranges=trained_ranges(32, device))
    good = found.lengths.isfinite() & (found.lengths > 0)
    assert good.tolist() == [True, False, False, True]
    assert found.vectors[~good].isnan().all() and (found.codes[~good] == 0).all()
    assert torch.equal(found.vectors[good], whole.vectors[good])
    assert torch.equal(found.codes[good], whole.codes[good])


def test_a_text_is_the_same_alone(generator, device):
    states, bounds = packed((9, 4, 12), 64, generator, device)
    together = pool(states, bounds, MEAN).vectors
    for text, (first, last) in enumerate(pairwise(bounds.tolist())):
        own = states[first:last].clone()
        alone = pool(own, torch.tensor([0, last - first], dtype=torch.int32, device=device), MEAN)
        assert torch.equal(alone.vectors[0], together[text])


def test_the_host_reads_nothing_of_what_is_on_the_device(monkeypatch):
    runs = []
    monkeypatch.setattr(Launch, "run", lambda launch, programs, *arguments: runs.append(programs))
    states = torch.empty((20, 64), device="meta")
    ranges = CodeRanges(torch.empty(32, device="meta"), torch.empty(32, device="meta"))
    bounds = torch.empty(4, dtype=torch.int32, device="meta")
    found = pool(states, bounds, CLS, dimension=32, ranges=ranges)
    assert runs == [3] and found.vectors.shape == found.codes.shape == (3, 32)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pooling": "max"}, "take one of mean, last_token, cls"),
        ({"dimension": 65}, "take 1 to 64"),
        ({"dimension": 0}, "take 1 to 64"),
        ({"states": torch.zeros((9, 64), dtype=torch.float64)}, "states is float64"),
        ({"states": torch.zeros(9)}, "states has the shape"),
        ({"bounds": torch.zeros(0, dtype=torch.int32)}, "bounds is empty"),
        ({"bounds": torch.zeros(3)}, "bounds is float32"),
        ({"ranges": CodeRanges(torch.zeros(32), torch.zeros(64))}, "minimum has the shape"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    given = {
        "states": torch.zeros((9, 64)),
        "bounds": torch.tensor([0, 9], dtype=torch.int32),
        "pooling": MEAN,
    }
    with pytest.raises(KernelInputError, match=message):
        pool(**(given | changed))


def test_no_texts_have_no_vectors(device):
    bounds = torch.zeros(1, dtype=torch.int32, device=device)
    ranges = trained_ranges(64, device)
    found = pool(torch.zeros((0, 64), device=device), bounds, MEAN, ranges=replace(ranges))
    assert found.vectors.shape == found.codes.shape == (0, 64)
