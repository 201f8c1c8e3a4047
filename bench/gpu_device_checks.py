"""What only a GPU has: recorded passes, one attention kernel for all texts, a memory that runs out."""

from precall.bench.gpu_contract_models import SAME_TEXT, ContractModels, NotHere, encode, least_cosine
from precall.bench.gpu_forward import PlainForward
from precall.bench.gpu_model import random_texts
from precall.engine.encoding.packing_buckets import PackingBuckets
from precall.engine.encoding.packing_texts import PackedTexts
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.torch_device import Placement
from precall.engine.errors import ModelUnavailable

_KERNEL_ERROR = 1e-2
"""Of attention in bfloat16 against float32, as a share of the result's length."""


def check_recorded_passes_are_plain_passes(models: ContractModels, dtype: str) -> str:
    """Every recorded size, full and with padding, up and down, so that each runs after each neighbour."""
    import torch

    from precall.engine.encoding.torch_graphs import GraphedForward

    placement = _with_one_kernel(models, dtype)
    plain = PlainForward(models.embedding, placement)
    buckets = PackingBuckets()
    said = []
    with torch.inference_mode():
        graphed = GraphedForward(plain.unit_vectors, placement.device, buckets)
        for tokens in (*buckets.tokens, *reversed(buckets.tokens)):
            for lengths in ([tokens], [tokens - 5, 1, 2], [1] * min(tokens, buckets.texts)):
                packed = PackedTexts.of(random_texts(lengths, seed=tokens))
                replayed = graphed.run(packed)
                assert replayed is not None, f"nothing was recorded for {lengths}"
                rows = replayed.cpu().numpy()
                said.append(least_cosine(rows, plain.rows(packed), SAME_TEXT))
    return min(said)


def check_one_kernel_attends_to_each_text_alone(models: ContractModels, dtype: str) -> str:
    import torch

    from precall.engine.encoding.torch_attention import (
        PackedTensors,
        text_by_text_attention,
        variable_length_attention,
    )

    placement = _with_one_kernel(models, dtype)
    chance = torch.Generator(placement.device).manual_seed(3)
    worst = 0.0
    for lengths, padding in (([1], 0), ([7, 1, 130, 64], 0), ([5, 60], 31), ([700, 3, 257], 0)):
        packed = PackedTexts.of(random_texts(lengths, seed=1))
        packed = packed.padded_to(packed.tokens + padding, len(lengths) + 4) if padding else packed
        buffer = torch.from_numpy(packed.buffer).to(placement.device)
        batch = PackedTensors.of(buffer, packed, longest=packed.tokens)
        queries, keys, values = (
            torch.randn(packed.tokens, heads, 128, generator=chance, device=placement.device).to(
                placement.dtype
            )
            for heads in (16, 8, 8)
        )
        with torch.inference_mode():
            ours = variable_length_attention(queries, keys, values, batch).float()
            exact = text_by_text_attention(queries.float(), keys.float(), values.float(), batch)
        worst = max(worst, float((ours - exact).norm() / exact.norm()))
    assert worst <= _KERNEL_ERROR, f"relative error {worst:.2e} > {_KERNEL_ERROR:g}"
    return f"relative error {worst:.2e} at most"


def check_out_of_memory_is_typed_and_passes(models: ContractModels, dtype: str) -> str:
    """The error is kept while the next pass runs, as whoever logs it may: it must hold no memory."""
    import torch

    if not models.on_gpu:
        raise NotHere("needs a GPU's memory limit")
    encoder = Qwen3Encoder(models.encoder_settings(dtype, pass_tokens=131_072))
    texts = random_texts([512] * 256, seed=13)
    before = encode(encoder, texts).vectors
    torch.cuda.empty_cache()
    device = models.placement(dtype).device
    index = device.index  # None: the current one, which that call does not take as a device
    held = torch.cuda.memory_allocated(device)
    _, total = torch.cuda.mem_get_info(device)
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(device) + 2**22) / total, index)
    kept: ModelUnavailable | None = None
    try:
        encode(encoder, texts)
    except ModelUnavailable as error:
        kept = error
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, index)
    assert kept is not None and "too little memory" in kept.message, kept
    left = torch.cuda.memory_allocated(device) - held
    assert left <= 2**20, f"the failed pass still holds {left} bytes"
    return least_cosine(encode(encoder, texts).vectors, before, SAME_TEXT)


def _with_one_kernel(models: ContractModels, dtype: str) -> Placement:
    placement = models.placement(dtype)
    if not placement.has_variable_length_attention:
        raise NotHere("only for half precision on a GPU")
    return placement
