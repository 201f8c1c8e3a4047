"""Batches and single queries of one model, ours beside transformers on the same device, in turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precall.bench.gpu_forward import PlainForward
from precall.bench.gpu_model import Qwen3Shape, Texts, random_texts
from precall.bench.gpu_reference import TransformersQwen3
from precall.bench.results import Measurement
from precall.bench.stopwatch import measure_in_turns

if TYPE_CHECKING:
    from precall.engine.encoding.torch_device import Placement

BENCHMARK = "gpu"
QUERY_TOKENS = 16


@dataclass(frozen=True)
class ThroughputSizes:
    """``text_tokens``: of each text of a batch. ``rounds`` and ``queries``: timed calls."""

    text_tokens: int = 512
    batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128)
    mixed: Sequence[int] = tuple(np.linspace(8, 512, 64, dtype=int).tolist())
    rounds: int = 5
    queries: int = 200


def measure_throughput(
    folder: Path,
    shape: Qwen3Shape,
    placement: "Placement",
    sizes: ThroughputSizes,
    matrix_teraflops: float,
) -> list[Measurement]:
    """Rates of whole passes: token ids in the host's memory in, unit vectors in the host's memory out."""
    forward = PlainForward(folder, placement)
    ours, plain = forward.runner(), forward.plain_runner()
    peer = TransformersQwen3(folder, placement)
    rows: list[Measurement] = []
    cases = {f"{count} x {sizes.text_tokens} tokens": (sizes.text_tokens,) * count for count in sizes.batches}
    cases[f"{len(sizes.mixed)} x {min(sizes.mixed)} to {max(sizes.mixed)} tokens"] = tuple(sizes.mixed)
    for case, lengths in cases.items():
        texts = random_texts(lengths, seed=len(lengths), vocabulary=shape.vocabulary)
        seconds = measure_in_turns(
            {"ours": _repeated(ours.run, texts), "transformers": _repeated(peer.vectors, texts)},
            rounds=sizes.rounds,
            warm_up=1,
        )
        middle = {name: float(np.median(taken)) for name, taken in seconds.items()}
        ratio = middle["transformers"] / middle["ours"]
        rate = sum(lengths) / middle["ours"]
        teraflops = shape.pass_operations(lengths) / middle["ours"] / 1e12
        rows += [
            Measurement(BENCHMARK, case, "rate", rate, "tokens/s", "transformers", ratio),
            Measurement(
                BENCHMARK,
                case,
                "useful rate",
                teraflops,
                "TFLOP/s",
                "bf16 matrix product",
                teraflops / matrix_teraflops,
            ),
        ]
    texts = random_texts([1, QUERY_TOKENS, 60, 300], seed=2, vocabulary=shape.vocabulary)
    agreement = np.einsum("ij,ij->i", ours.run(texts), peer.vectors_one_by_one(texts)).min()
    rows.append(Measurement(BENCHMARK, "4 texts", "least cosine", float(agreement), "", "transformers"))
    queries = random_texts([QUERY_TOKENS] * sizes.queries, seed=3, vocabulary=shape.vocabulary)
    seconds = measure_in_turns(
        {
            "recorded": lambda turn: ours.run([queries[turn]]),
            "plain": lambda turn: plain.run([queries[turn]]),
            "transformers": lambda turn: peer.vectors([queries[turn]]),
        },
        rounds=sizes.queries,
    )
    return rows + _query_rows(seconds, recorded=placement.has_variable_length_attention)


def _repeated(embed: Callable[[Texts], object], texts: Texts) -> Callable[[int], object]:
    """The same call each turn."""
    return lambda turn: embed(texts)


def _query_rows(seconds: dict[str, Sequence[float]], *, recorded: bool) -> list[Measurement]:
    """``recorded``: whether a replay took the place of the plain pass; if not, both are the plain one."""
    case = f"a query of {QUERY_TOKENS} tokens, called directly"
    rows = []
    for metric, share in (("p50", 50), ("p95", 95)):
        ms = {name: float(np.percentile(taken, share)) * 1e3 for name, taken in seconds.items()}
        ours = ms["recorded" if recorded else "plain"]
        rows.append(
            Measurement(BENCHMARK, case, metric, ours, "ms", "transformers", ms["transformers"] / ours)
        )
        if recorded:
            peer = "without recording"
            rows.append(Measurement(BENCHMARK, case, metric, ours, "ms", peer, ms["plain"] / ours))
    return rows
