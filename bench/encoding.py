"""The default encoder beside the same model in torch and in plain transformers, in one run.

Run it with ``python -P -m precall.bench.encoding``; it prints a JSON object.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precall.bench.results import Measurement, append_results
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.encoding.minilm import CARD, find_minilm
from precall.engine.encoding.onnx_encoder import OnnxEncoder, default_threads

QUERY = "what did she say about the long trip"
_BATCH = 32  # what sentence-transformers and most users of transformers take
_WORDS = (
    *("garden", "train", "letter", "orange", "window", "doctor", "yellow", "river", "kitchen", "music"),
    *("paper", "winter", "holiday", "brother", "ticket", "morning", "bridge", "coffee", "office", "market"),
    *("summer", "island", "camera", "lesson", "village", "dinner", "painting", "weather", "journey", "radio"),
)

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True)
class EncodingSpeed:
    """``single_p50_ms``: one text of eight words, tokenising included. ``texts_a_second``: lengths mixed."""

    single_p50_ms: float
    texts_a_second: float


@dataclass(frozen=True)
class EncodingReport:
    """Ratios above 1: ours is faster. ``least_cosine`` is over all texts, ours to transformers."""

    machine: str
    processors: int
    threads: int
    texts: int
    ours: EncodingSpeed
    torch: EncodingSpeed
    transformers: EncodingSpeed
    single_ratio_to_torch: float
    batch_ratio_to_torch: float
    single_ratio_to_transformers: float
    batch_ratio_to_transformers: float
    least_cosine: float

    def measurements(self) -> list[Measurement]:
        """Rows for the table of results."""
        single, batch = self.ours.single_p50_ms, self.ours.texts_a_second
        return [
            Measurement("encoding", "8 words", "p50", single, "ms", "torch", self.single_ratio_to_torch),
            Measurement(
                "encoding", "8 words", "p50", single, "ms", "transformers", self.single_ratio_to_transformers
            ),
            Measurement(
                "encoding", "mixed lengths", "rate", batch, "texts/s", "torch", self.batch_ratio_to_torch
            ),
            Measurement(
                "encoding",
                "mixed lengths",
                "rate",
                batch,
                "texts/s",
                "transformers",
                self.batch_ratio_to_transformers,
            ),
        ]


def measure_encoding(
    *,
    texts: int = 128,
    repeats: int = 40,
    rounds: int = 3,
    seed: int = 7,
    cache_dir: Path | None = None,
    model_path: Path | None = None,
) -> EncodingReport:
    """Time the three on equal texts, taking turns, so that a noisy moment of the machine hits all alike.

    ``torch`` gets its texts tokenised beforehand and sorted by length (its best case); ``transformers`` is
    called as its model page shows. All use ``default_threads()`` threads.
    """
    import torch

    torch.set_num_threads(default_threads())
    encoder = load_default_encoder(cache_dir, model_path).encoder
    folder = find_minilm(model_path).folder
    corpus = _mixed_texts(texts, seed)
    contenders: dict[str, Embed] = {
        "ours": _ours(encoder),
        "torch": _torch_direct(encoder, folder, [*corpus, QUERY]),
        "transformers": _plain_transformers(folder),
    }
    vectors = {name: embed(corpus) for name, embed in contenders.items()}
    singles: dict[str, list[float]] = {name: [] for name in contenders}
    batches: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, embed in contenders.items():
            embed([QUERY])
            singles[name] += [_seconds(embed, [QUERY]) for _ in range(repeats)]
            batches[name].append(_seconds(embed, corpus))
    speeds = {
        name: EncodingSpeed(
            single_p50_ms=1e3 * statistics.median(singles[name]),
            texts_a_second=texts / statistics.median(batches[name]),
        )
        for name in contenders
    }
    ours, direct, plain = speeds["ours"], speeds["torch"], speeds["transformers"]
    return EncodingReport(
        machine=platform.processor() or platform.machine(),
        processors=os.cpu_count() or 1,
        threads=default_threads(),
        texts=texts,
        ours=ours,
        torch=direct,
        transformers=plain,
        single_ratio_to_torch=direct.single_p50_ms / ours.single_p50_ms,
        batch_ratio_to_torch=ours.texts_a_second / direct.texts_a_second,
        single_ratio_to_transformers=plain.single_p50_ms / ours.single_p50_ms,
        batch_ratio_to_transformers=ours.texts_a_second / plain.texts_a_second,
        least_cosine=float(np.einsum("ij,ij->i", vectors["ours"], vectors["transformers"]).min()),
    )


def _seconds(embed: Embed, texts: Sequence[str]) -> float:
    begin = time.perf_counter()
    embed(texts)
    return time.perf_counter() - begin


def _mixed_texts(count: int, seed: int) -> list[str]:
    """As long as turns of a conversation are: 15 to 70 words, most of them short."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(_WORDS, k=round(chance.triangular(15, 70, 25)))) for _ in range(count)]


def _ours(encoder: OnnxEncoder) -> Embed:
    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        return encoder.encode(
            [encoder.tokenize(text, TextRole.DOCUMENT, truncate=False) for text in texts]
        ).vectors

    return embed


def _torch_direct(encoder: OnnxEncoder, folder: Path, known_texts: Sequence[str]) -> Embed:
    import torch

    model = _model(folder)
    token_ids = {
        text: torch.from_numpy(encoder.tokenize(text, TextRole.DOCUMENT, truncate=False).token_ids)
        for text in known_texts
    }

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        order = sorted(range(len(texts)), key=lambda position: len(token_ids[texts[position]]))
        vectors = np.empty((len(texts), CARD.dimension), dtype=np.float32)
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]
            ids = [token_ids[texts[row]] for row in rows]
            padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
            vectors[rows] = _pooled(model, padded, mask)
        return vectors

    return embed


def _plain_transformers(folder: Path) -> Embed:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    model = _model(folder)

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        parts = []
        for begin in range(0, len(texts), _BATCH):
            batch = tokenizer(
                list(texts[begin : begin + _BATCH]),
                padding=True,
                truncation=True,
                max_length=CARD.max_tokens,
                return_tensors="pt",
            )
            parts.append(_pooled(model, batch["input_ids"], batch["attention_mask"]))
        return np.concatenate(parts)

    return embed


def _model(folder: Path) -> Any:
    from transformers import AutoModel

    return AutoModel.from_pretrained(str(folder), local_files_only=True).eval()


def _pooled(model: Any, token_ids: Any, mask: Any) -> NDArray[np.float32]:
    import torch

    with torch.inference_mode():
        hidden = model(input_ids=token_ids, attention_mask=mask).last_hidden_state
        kept = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * kept).sum(dim=1) / kept.sum(dim=1)
        return np.asarray(torch.nn.functional.normalize(mean, dim=1).numpy(), dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the default encoder beside torch and transformers.")
    parser.add_argument("--csv", type=Path, help="append the figures to this table of results")
    arguments = parser.parse_args()
    report = measure_encoding()
    print(json.dumps(asdict(report), indent=2))
    if arguments.csv is not None:
        append_results(arguments.csv, report.measurements())


if __name__ == "__main__":
    main()
