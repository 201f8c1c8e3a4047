"""What a GPU is given and asked for, as far as a processor can tell."""

import gc
import weakref

import numpy as np
import pytest
import torch

from precall.engine.encoding import torch_graphs, torch_runner
from precall.engine.encoding.packing_texts import PackedTexts
from precall.engine.encoding.torch_attention import (
    PackedTensors,
    causal_options,
    choose_attention,
    text_by_text_attention,
    ungrouped,
    variable_length_attention,
)
from precall.engine.encoding.torch_device import Placement
from precall.engine.encoding.torch_runner import PackedRunner
from precall.engine.errors import ModelUnavailable

GPU = torch.device("cuda")
TEXT = np.arange(3)


def varlen_attn_2_10(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None
): ...


def varlen_attn_2_11(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None, window_size=(-1, -1)
): ...


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (varlen_attn_2_10, {"is_causal": True}),
        (varlen_attn_2_11, {"window_size": (-1, 0)}),
    ],
)
def test_older_versions_of_torch_are_told_in_their_words(function, options):
    assert causal_options(function) == options


def test_this_version_of_torch_knows_what_it_is_told():
    from torch.nn.attention.varlen import varlen_attn

    assert causal_options(varlen_attn) == {"window_size": (-1, 0), "enable_gqa": True}


@pytest.fixture
def capability(monkeypatch):
    """Sets the generation of the GPU that this machine does not have."""

    def choose(major: int, minor: int) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (major, minor))

    choose(9, 0)
    return choose


@pytest.mark.parametrize(
    ("dtype", "generation", "attention"),
    [
        (torch.bfloat16, (9, 0), variable_length_attention),
        (torch.float16, (8, 0), variable_length_attention),
        (torch.bfloat16, (7, 5), text_by_text_attention),
        (torch.float32, (9, 0), text_by_text_attention),
    ],
)
def test_the_one_kernel_is_taken_where_it_exists(capability, dtype, generation, attention):
    capability(*generation)
    assert choose_attention(Placement(GPU, dtype)) is attention


@pytest.mark.parametrize(("dtype", "records"), [(torch.bfloat16, True), (torch.float32, False)])
def test_only_passes_that_do_not_depend_on_lengths_are_recorded(capability, monkeypatch, dtype, records):
    """A pass that goes text by text, replayed for other texts, would let them see their neighbours."""
    recorded = []

    class Recording:
        def __init__(self, forward, device):
            recorded.append(device)

        def run(self, packed):
            raise AssertionError

    monkeypatch.setattr(torch_graphs, "GraphedForward", Recording)
    PackedRunner(lambda batch: torch.zeros(1, 1), Placement(GPU, dtype))
    assert bool(recorded) is records


def test_products_of_half_precision_add_up_in_float32(capability, monkeypatch):
    settings = torch.backends.cuda.matmul
    before = settings.allow_bf16_reduced_precision_reduction, settings.allow_fp16_reduced_precision_reduction
    try:
        Placement(torch.device("cpu"), torch.bfloat16).prepare()
        assert before == (
            settings.allow_bf16_reduced_precision_reduction,
            settings.allow_fp16_reduced_precision_reduction,
        )
        PackedRunner(lambda batch: torch.zeros(1, 1), Placement(GPU, torch.float32))
        assert not settings.allow_bf16_reduced_precision_reduction
        assert not settings.allow_fp16_reduced_precision_reduction
    finally:
        settings.allow_bf16_reduced_precision_reduction = before[0]
        settings.allow_fp16_reduced_precision_reduction = before[1]


@pytest.mark.parametrize("failure", ["OutOfMemoryError", "RuntimeError"])
def test_an_error_that_somebody_keeps_holds_nothing_of_its_pass(failure):
    """A log, a span or a caller may keep it; the next pass needs the memory."""
    held: list[weakref.ref[torch.Tensor]] = []

    def forward(batch):
        states = torch.zeros(1_000)
        held.append(weakref.ref(states))
        raise getattr(torch, failure, RuntimeError)("no")

    runner = PackedRunner(forward, Placement(torch.device("cpu"), torch.float32))
    with pytest.raises(ModelUnavailable) as kept:
        runner.run([TEXT])
    gc.collect()
    assert kept.value.__cause__ is not None
    assert [reference() for reference in held] == [None]


def test_a_gpu_gives_its_memory_back_after_a_failure(capability, monkeypatch):
    given_back = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(True))
    monkeypatch.setattr(torch_runner.PackedRunner, "_pass", lambda runner, packed: fail())

    def fail():
        raise torch.OutOfMemoryError("no")

    runner = PackedRunner(lambda batch: torch.zeros(1, 1), Placement(GPU, torch.float32))
    with pytest.raises(ModelUnavailable, match="too little memory"):
        runner.run([TEXT])
    assert given_back == [True]


def test_heads_that_are_repeated_are_heads_that_are_shared():
    packed = PackedTexts.of([np.arange(length) for length in (5, 1, 9)])
    batch = PackedTensors.of(torch.from_numpy(packed.buffer), packed)
    chance = torch.Generator().manual_seed(1)
    queries, keys, values = (torch.randn(15, heads, 8, generator=chance) for heads in (6, 2, 2))
    torch.testing.assert_close(
        text_by_text_attention(queries, ungrouped(keys, 6), ungrouped(values, 6), batch),
        text_by_text_attention(queries, keys, values, batch),
    )
