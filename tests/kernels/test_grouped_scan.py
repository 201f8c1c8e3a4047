"""The grouped scan finds what its reference finds, whatever the partitions' shapes, and nothing dead."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from precall.engine.index.coder import Coder
from precall.engine.index.codes import FlatCodes, Question
from precall.kernels import grouped_scan_kernels
from precall.kernels.errors import KernelInputError
from precall.kernels.grouped_scan import (
    LANES,
    CodeArena,
    FoundSlots,
    Pairs,
    grouped_scan,
    grouped_scan_reference,
)
from precall.kernels.launch import Launch
from precall.scoring.ranking import RankingWeights
from tests.fakes.memories import NOW, clustered
from tests.kernels.arenas import pairs_of, random_arena, unit_queries

TOLERANCES = [
    # dtype of the totals, atol, rtol
    (torch.float32, 2e-6, 1e-6),
]
FEW_PROGRAMS = 4


def assert_equals_reference(arena: CodeArena, pairs: Pairs, found: FoundSlots, wanted: int) -> None:
    """Rank by rank the same totals, each of a living slot that has it, no slot twice."""
    ((dtype, atol, rtol),) = TOLERANCES
    expected = grouped_scan_reference(arena, pairs, wanted)
    assert found.totals.dtype == dtype and found.slots.dtype == torch.int32
    torch.testing.assert_close(found.totals, expected.totals, atol=atol, rtol=rtol, equal_nan=True)
    assert torch.equal(found.slots < 0, expected.slots < 0)
    everything = grouped_scan_reference(arena, pairs, max(1, int(arena.lengths.max())))
    for pair in range(len(found.slots)):
        own = found.slots[pair][found.slots[pair] >= 0].long()
        assert len(own.unique()) == len(own)
        by_slot = dict(zip(everything.slots[pair].tolist(), everything.totals[pair].tolist(), strict=True))
        exact = torch.tensor([by_slot[slot] for slot in own.tolist()])  # a dead slot is not in it
        torch.testing.assert_close(found.totals[pair, : len(own)].cpu(), exact, atol=atol, rtol=rtol)


@pytest.mark.parametrize(
    ("sizes", "width", "wanted"),
    [
        ((1,), 16, 1),
        ((1, 2, 0, 5), 48, 10),
        ((127, 128, 129), 64, 16),
        ((300, 1, 257), 400, 17),
        ((513,), 384, 10),
        ((40, 140), 1_040, 5),
        ((200,), 32, 128),
        ((3,), 4_096, 3),
    ],
)
def test_it_finds_what_the_formula_finds(sizes, width, wanted, generator, device):
    arena = random_arena(sizes, width, generator=generator, device=device, dead=0.2)
    asked = [(number % 3, number % len(sizes)) for number in range(len(sizes) + 2)]
    pairs = pairs_of(unit_queries(3, width, generator=generator), asked, device)
    found = grouped_scan(arena, pairs, wanted, programs=FEW_PROGRAMS)
    assert_equals_reference(arena, pairs, found, wanted)


@pytest.mark.parametrize("seed", range(6))
def test_it_finds_what_the_formula_finds_in_any_shape(seed, device):
    generator = torch.Generator().manual_seed(seed)

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    width, wanted = LANES * drawn(1, 30), drawn(1, 20)
    sizes = [drawn(0, 400) for _ in range(drawn(1, 4))]
    arena = random_arena(sizes, width, generator=generator, device=device, dead=drawn(0, 9) / 10)
    asked = [(drawn(0, 2), drawn(-1, len(sizes) - 1)) for _ in range(drawn(1, 5))]
    pairs = pairs_of(unit_queries(3, width, generator=generator), asked, device)
    found = grouped_scan(arena, pairs, wanted, programs=drawn(1, 9))
    assert_equals_reference(arena, pairs, found, wanted)


def test_how_rows_are_cut_changes_not_one_bit(generator, device):
    arena = random_arena((1_500, 90), 64, generator=generator, device=device, dead=0.1)
    pairs = pairs_of(unit_queries(2, 64, generator=generator), [(0, 0), (1, 1), (1, 0)], device)
    whole = grouped_scan(arena, pairs, 10, programs=1)
    cut = grouped_scan(arena, pairs, 10, programs=50)
    alone = grouped_scan(arena, pairs_of(pairs.queries, [(1, 0)], device), 10, programs=3)
    assert torch.equal(whole.slots, cut.slots) and torch.equal(whole.totals, cut.totals)
    assert torch.equal(alone.slots[0], whole.slots[2]) and torch.equal(alone.totals[0], whole.totals[2])


def test_of_equal_rows_the_lower_slots_are_found(generator, device):
    arena = random_arena((700,), 32, generator=generator, device=device)
    arena.codes[:] = arena.codes[5]
    pairs = pairs_of(unit_queries(1, 32, generator=generator), [(0, 0)], device)
    found = grouped_scan(arena, pairs, 20, programs=FEW_PROGRAMS)
    assert found.slots[0].tolist() == list(range(20))


def test_dead_slots_are_never_found_and_come_back_when_they_live(generator, device):
    arena = random_arena((260,), 32, generator=generator, device=device)
    pairs = pairs_of(unit_queries(1, 32, generator=generator), [(0, 0)], device)
    best = int(grouped_scan(arena, pairs, 1, programs=1).slots[0, 0])
    arena.alive[int(arena.starts[0]) + best] = False
    without = grouped_scan(arena, pairs, 128, programs=1)
    assert best not in without.slots[0].tolist()
    arena.alive[:] = False
    nothing = grouped_scan(arena, pairs, 3, programs=1)
    assert nothing.slots[0].tolist() == [-1] * 3 and nothing.totals[0].tolist() == [-torch.inf] * 3
    arena.alive[:] = True
    assert int(grouped_scan(arena, pairs, 1, programs=1).slots[0, 0]) == best


def test_rows_beyond_two_gigabytes_are_found(generator, device):
    """Of the arena only the last pages are ever touched."""
    width, size = 16, 300
    rows = 2**31 // width + 1_000
    small = random_arena((size,), width, generator=generator, device=device, between=0)
    codes = torch.empty((rows, width), dtype=torch.uint8, device=device)
    alive = torch.empty(rows, dtype=torch.uint8, device=device)
    codes[-size:], alive[-size:] = small.codes, small.alive.to(torch.uint8)
    large = replace(small, codes=codes, alive=alive, starts=small.starts + rows - size)
    pairs = pairs_of(unit_queries(1, width, generator=generator), [(0, 0)], device)
    expected = grouped_scan(small, pairs, 5, programs=1)
    found = grouped_scan(large, pairs, 5, programs=1)
    assert torch.equal(found.slots, expected.slots) and torch.equal(found.totals, expected.totals)


def test_more_pairs_than_the_plan_reads_at_a_time(generator, device, monkeypatch):
    arena = random_arena((1, 300, 0), 16, generator=generator, device=device)
    asked = [(0, number % 4 - 1) for number in range(21)]
    pairs = pairs_of(unit_queries(1, 16, generator=generator), asked, device)
    at_once = grouped_scan(arena, pairs, 1, programs=6)
    monkeypatch.setattr(grouped_scan_kernels, "_PLANNED", 16)
    in_parts = grouped_scan(arena, pairs, 1, programs=6)
    assert torch.equal(in_parts.slots, at_once.slots) and torch.equal(in_parts.totals, at_once.totals)
    assert_equals_reference(arena, pairs, in_parts, 1)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_a_broken_query_is_no_empty_answer(broken, generator, device):
    arena = random_arena((30,), 32, generator=generator, device=device)
    queries = unit_queries(2, 32, generator=generator)
    queries[1, 7] = broken
    found = grouped_scan(arena, pairs_of(queries, [(0, 0), (1, 0)], device), 3, programs=1)
    assert found.totals[0].isfinite().all()
    assert found.totals[1].isnan().all() and (found.slots[1] == -1).all()


def test_the_error_stays_within_the_bound_that_is_told(generator, device):
    """A column that outweighs all others takes the digits from them: the bound says how many."""
    width, size = 64, 200
    arena = random_arena((size,), width, generator=generator, device=device)
    arena.steps[0, 3] = 10.0
    arena.middles.zero_()
    arena.codes[:, 3] = 128  # whose product is 0, so that float32 rounds nothing away
    queries = unit_queries(1, width, generator=generator)
    pairs = pairs_of(queries, [(0, 0)], device)
    found = grouped_scan(arena, pairs, 128, programs=1)
    exact = grouped_scan_reference(arena, pairs, size)
    by_slot = dict(zip(exact.slots[0].tolist(), exact.totals[0].tolist(), strict=True))
    errors = [
        abs(by_slot[slot] - total)
        for slot, total in zip(found.slots[0].tolist(), found.totals[0].tolist(), strict=True)
    ]
    greatest = float((queries[0].to(device) * arena.steps[0]).abs().max())
    assert 0 < max(errors) <= width * 64 * 2**-21 * greatest


def test_whole_numbers_are_rounded_and_not_cut(device):
    """Each column is off by a tenth of a unit, by nine if it were cut; all errors have one sign."""
    width, unit = 64, 2.0**-21
    queries = torch.full((1, width), 5.9 * unit)
    queries[0, 3] = 1.0
    arena = CodeArena(
        torch.full((1, width), 255, dtype=torch.uint8, device=device),
        torch.ones(1, dtype=torch.bool, device=device),
        torch.zeros(1, dtype=torch.int64, device=device),
        torch.ones(1, dtype=torch.int32, device=device),
        torch.ones((1, width), device=device),
        torch.zeros((1, width), device=device),
    )
    arena.codes[0, 3] = 128
    total = grouped_scan(arena, pairs_of(queries, [(0, 0)], device), 1, programs=1).totals[0, 0].item()
    assert total == 63 * 6 * 127 * unit


def test_it_reads_the_codes_of_the_index(device):
    """The same codes, ranges and questions as the CPU tier's: the same candidates in the same order."""
    count, dimension = 600, 64
    generator = np.random.default_rng(3)
    vectors = clustered(count, dimension, seed=3)
    importance = generator.random(count).astype(np.float32)
    events = NOW - generator.exponential(40 * 86_400.0, count)
    coder = Coder(vectors, importance, events)
    codes = FlatCodes(coder)
    rows = coder.space.rows(vectors, importance, events)
    codes.add(rows)
    question = Question(clustered(1, dimension, seed=9)[0], RankingWeights(), NOW, 10)
    expected = codes.nearest(question, 50, None)

    padding = -coder.space.width % LANES
    step = coder.ask(np.ones(coder.space.width, np.float32)).vector
    middle = coder.ranges.minimum + np.float32(128.5) * step
    lifted = coder.space.query(question.vector, question.weights, question.now, coder.tolerance)
    arena = CodeArena(
        torch.from_numpy(np.pad(coder.encode(rows).codes, ((0, 0), (0, padding)))).to(device),
        torch.ones(count, dtype=torch.bool, device=device),
        torch.zeros(1, dtype=torch.int64, device=device),
        torch.tensor([count], dtype=torch.int32, device=device),
        torch.from_numpy(np.pad(step, (0, padding)))[None].to(device),
        torch.from_numpy(np.pad(middle, (0, padding)))[None].to(device),
    )
    query = torch.from_numpy(np.pad(lifted.vector, (0, padding)))[None]
    found = grouped_scan(arena, pairs_of(query, [(0, 0)], device), 50, programs=FEW_PROGRAMS)
    assert np.abs(found.totals[0].cpu().numpy() - expected.totals).max() < 1e-6
    assert np.array_equal(found.slots[0].cpu().numpy(), expected.slots)


def test_the_host_reads_nothing_of_what_is_on_the_device(generator, monkeypatch):
    """Tensors that have shapes and nothing in them: whoever looked at a value would fail."""
    runs = []
    monkeypatch.setattr(Launch, "run", lambda launch, programs, *arguments: runs.append(programs))
    arena = random_arena((9, 70), 32, generator=generator, device=torch.device("cpu"))
    there = torch.device("meta")
    arena = CodeArena(*(getattr(arena, name).to(there) for name in CodeArena.__slots__))
    pairs = pairs_of(unit_queries(4, 32, generator=generator), [(0, 0), (3, 1)], there)
    found = grouped_scan(arena, pairs, 10, programs=100)
    assert runs == [3, 102, 2]
    assert found.slots.shape == found.totals.shape == (2, 10)


def test_no_pairs_find_nothing(generator, device):
    arena = random_arena((9,), 32, generator=generator, device=device)
    found = grouped_scan(arena, pairs_of(unit_queries(1, 32, generator=generator), [], device), 10)
    assert found.slots.shape == (0, 10)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"codes": torch.zeros((15, 24), dtype=torch.uint8)}, "multiple of 16"),
        ({"codes": torch.zeros((15, 32), dtype=torch.int8)}, "codes is int8"),
        ({"codes": torch.zeros((32, 15), dtype=torch.uint8).T}, "multiple of 16|gaps|contiguous"),
        ({"alive": torch.ones(14, dtype=torch.bool)}, "alive has the shape"),
        ({"starts": torch.zeros(1, dtype=torch.int32)}, "starts is int32"),
        ({"lengths": torch.zeros(2, dtype=torch.int32)}, "lengths has the shape"),
        ({"steps": torch.zeros((1, 16))}, "steps has the shape"),
        ({"middles": torch.zeros((1, 64))[:, ::2]}, "middles is a view"),
    ],
)
def test_an_arena_that_does_not_fit_is_refused(changed, message, generator):
    device = torch.device("cpu")
    arena = random_arena((9,), 32, generator=generator, device=device)
    pairs = pairs_of(unit_queries(1, 32, generator=generator), [(0, 0)], device)
    with pytest.raises(KernelInputError, match=message):
        grouped_scan(replace(arena, **changed), pairs, 1)


@pytest.mark.parametrize("wanted", [0, 129])
def test_a_number_of_rows_that_cannot_be_kept_is_refused(wanted, generator):
    device = torch.device("cpu")
    arena = random_arena((9,), 32, generator=generator, device=device)
    with pytest.raises(KernelInputError, match="1 to 128"):
        grouped_scan(arena, pairs_of(unit_queries(1, 32, generator=generator), [(0, 0)], device), wanted)
