"""Batch throughput of the engine's encoder beside the same model in sentence-transformers and torch."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.embed_floor import FLOP_A_TOKEN, multiply_rate
from precall.bench.embed_report import Finding, Target
from precall.bench.embed_texts import EmbedTexts
from precall.bench.stopwatch import measure_in_turns
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.minilm import CARD
from precall.engine.encoding.onnx_encoder import default_threads

PART: Final = "throughput"
TO_SENTENCE_TRANSFORMERS: Final = Target(1.3, at_least=True)
LEAST_COSINE: Final = Target(0.999, at_least=True)
_BATCH: Final = 32
"""Of plain torch: sentence-transformers' default, so that the two differ in what is around the model."""

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def measure_throughput(encoder: Encoder, folder: Path, texts: EmbedTexts, *, rounds: int) -> list[Finding]:
    """All in this process, in turns, float32, ``default_threads()`` threads each, too long texts cut.

    ``ours`` is what a caller of the engine pays: tokenised, cut into passes, encoded.
    sentence-transformers runs with its defaults. ``torch`` is the same model called directly: tokenised
    beforehand and sorted.
    """
    import torch

    torch.set_num_threads(default_threads())
    contenders: dict[str, Embed] = {
        "ours": direct(encoder),
        "sentence-transformers": _sentence_transformers(folder),
        "torch": _torch(encoder, folder, [*texts.turns, *texts.abstracts]),
    }
    findings: list[Finding] = []
    for case, corpus in (("turns", texts.turns), ("abstracts", texts.abstracts)):
        findings += _compare(case, corpus, contenders, encoder, rounds)
    return findings


def direct(encoder: Encoder) -> Embed:
    """The encoder called from Python, nothing around it."""

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        tokenized = [encoder.tokenize(text, TextRole.DOCUMENT, truncate=True) for text in texts]
        return encoder.encode(tokenized).vectors

    return embed


def least_cosine(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """The smallest cosine of rows that belong together; both are unit rows of shape ``(n, dimension)``."""
    return float(np.einsum("ij,ij->i", left, right).min())


def _compare(
    case: str, corpus: Sequence[str], contenders: Mapping[str, Embed], encoder: Encoder, rounds: int
) -> list[Finding]:
    vectors = {name: embed(corpus) for name, embed in contenders.items()}
    seconds = measure_in_turns(
        {name: lambda _, embed=embed: embed(corpus) for name, embed in contenders.items()},  # type: ignore[misc]
        rounds=rounds,
        warm_up=1,
    )
    rates = {name: len(corpus) / float(np.median(times)) for name, times in seconds.items()}
    tokens = sum(
        len(encoder.tokenize(text, TextRole.DOCUMENT, truncate=True).token_ids) for text in corpus
    ) / len(corpus)
    multiplying = multiply_rate()
    reached = rates["ours"] * tokens * FLOP_A_TOKEN / multiplying
    cosine = min(least_cosine(vectors["ours"], vectors[name]) for name in contenders if name != "ours")
    peer = "sentence-transformers"
    return [
        *(
            Finding(
                PART, case, "rate", rates["ours"], "texts/s", name, rates["ours"] / rates[name], target, note
            )
            for name, target, note in (
                (peer, TO_SENTENCE_TRANSFORMERS, f"{rates[peer]:.4g} texts/s with its defaults"),
                ("torch", None, f"{rates['torch']:.4g} texts/s, tokenised and sorted beforehand"),
            )
        ),
        Finding(
            PART, case, "cosine", cosine, "least", target=LEAST_COSINE, note="to the same texts of both peers"
        ),
        Finding(
            PART,
            case,
            "share of the floor",
            reached,
            "share",
            note=f"{tokens:.0f} tokens a text, {FLOP_A_TOKEN / 1e6:.1f} MFLOP a token, products at "
            f"{multiplying / 1e9:.0f} GFLOP/s",
        ),
    ]


def _sentence_transformers(folder: Path) -> Embed:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.asarray(model.encode(list(texts)), dtype=np.float32)

    return embed


def _torch(encoder: Encoder, folder: Path, known_texts: Sequence[str]) -> Embed:
    import torch
    from transformers import AutoModel

    model: Any = AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
    token_ids = {
        text: torch.from_numpy(encoder.tokenize(text, TextRole.DOCUMENT, truncate=True).token_ids)
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


def _pooled(model: Any, token_ids: Any, mask: Any) -> NDArray[np.float32]:
    import torch

    with torch.inference_mode():
        hidden = model(input_ids=token_ids, attention_mask=mask).last_hidden_state
        kept = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * kept).sum(dim=1) / kept.sum(dim=1)
        return np.asarray(torch.nn.functional.normalize(mean, dim=1).numpy(), dtype=np.float32)
