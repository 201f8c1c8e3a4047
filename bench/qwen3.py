"""Qwen3-Embedding through precall beside the same model called through transformers, in one run.

Run it with ``python -P -m precall.bench.qwen3``; it prints a JSON object. The weights are random, in the
shape of the 0.6B model: right for speed and for agreement, wrong for meaning. ``--layers 4`` is a quick look.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precall.bench.gpu_forward import PlainForward
from precall.bench.gpu_model import Qwen3Shape, RandomQwen3, Texts
from precall.bench.gpu_reference import TransformersQwen3

Embed = Callable[[Texts], NDArray[np.float32]]

_SPREAD = 0.02  # transformers' own, so that the states of 28 layers stay in range
FULL_DEPTH = 28
CASES = {
    "one of 16": (16,),
    "one of 256": (256,),
    "one of 512": (512,),
    "16 of 8 to 60": tuple(np.linspace(8, 60, 16, dtype=int).tolist()),
    "8 of 8 to 250": tuple(np.linspace(8, 250, 8, dtype=int).tolist()),
    "4 of 256": (256,) * 4,
}
"""Lengths in tokens of the texts of each measured batch."""


@dataclass(frozen=True)
class BatchSpeed:
    """Medians in milliseconds. ``ratio`` above 1: ours is faster. ``least_cosine``: ours to transformers."""

    tokens: int
    ours_ms: float
    transformers_ms: float
    ratio: float
    least_cosine: float


@dataclass(frozen=True)
class Qwen3Report:
    machine: str
    device: str
    dtype: str
    layers: int
    threads: int
    batches: dict[str, BatchSpeed]


def measure_qwen3(
    *,
    layers: int = FULL_DEPTH,
    device: str = "auto",
    dtype: str = "auto",
    rounds: int = 3,
    threads: int | None = None,
    seed: int = 7,
) -> Qwen3Report:
    """Time both on equal token ids, taking turns. ``transformers`` gets the batch padded on the left, with
    its mask, as the model card shows; tokenising is left out for both.
    """
    import torch

    from precall.engine.encoding.torch_device import Placement

    if threads is not None:
        torch.set_num_threads(threads)
    placement = Placement.choose(device, dtype)
    chance = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        model = RandomQwen3(Qwen3Shape(layers=layers), spread=_SPREAD, seed=seed).save(Path(folder))
        ours: Embed = PlainForward(model, placement).runner().run
        transformers: Embed = TransformersQwen3(model, placement).vectors
    batches = {}
    for name, lengths in CASES.items():
        texts = [chance.integers(0, Qwen3Shape().vocabulary, length) for length in lengths]
        cosines = np.einsum("ij,ij->i", ours(texts), transformers(texts))
        seconds: dict[Embed, list[float]] = {ours: [], transformers: []}
        for _ in range(rounds):
            for embed, taken in seconds.items():
                taken.append(_seconds(embed, texts))
        ours_ms, transformers_ms = (1e3 * statistics.median(taken) for taken in seconds.values())
        batches[name] = BatchSpeed(
            tokens=sum(lengths),
            ours_ms=ours_ms,
            transformers_ms=transformers_ms,
            ratio=transformers_ms / ours_ms,
            least_cosine=float(cosines.min()),
        )
    return Qwen3Report(
        machine=f"{platform.machine()}, {os.cpu_count()} processors",
        device=torch.cuda.get_device_name(placement.device) if placement.on_gpu else "cpu",
        dtype=str(placement.dtype).removeprefix("torch."),
        layers=layers,
        threads=torch.get_num_threads(),
        batches=batches,
    )


def _seconds(embed: Embed, texts: Texts) -> float:
    begin = time.perf_counter()
    embed(texts)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=FULL_DEPTH, help="depth of the model (default: all 28)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--rounds", type=int, default=3, help="timed passes a batch")
    parser.add_argument("--threads", type=int, help="threads of a pass on a processor")
    asked = parser.parse_args()
    print(json.dumps(asdict(measure_qwen3(**vars(asked))), indent=2))


if __name__ == "__main__":
    main()
