"""From nothing to the default encoder in one call."""

from dataclasses import dataclass
from pathlib import Path

from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.guard import NumericsGuard
from precall.engine.encoding.minilm import CARD, GOLDEN_PAIRS, find_minilm
from precall.engine.encoding.onnx_encoder import OnnxEncoder
from precall.engine.encoding.onnx_export import ensure_exported


@dataclass(frozen=True)
class LoadedEncoder:
    """A checked encoder, its guard for later probes, and the files that clients may fetch."""

    encoder: OnnxEncoder
    exported: ExportedEncoder
    guard: NumericsGuard


def load_default_encoder(
    cache_dir: Path | None = None, model_path: Path | None = None, threads: int | None = None
) -> LoadedEncoder:
    """MiniLM on ONNX Runtime, its weights, export and numerics checked. Blocks: some seconds the first time.

    ``cache_dir`` holds the export (default: the user's cache), ``model_path`` a folder with the model's files
    (default: the installed package), ``threads`` those of one forward pass (default: the processors, up to
    4). Raises ``ModelUnavailable``, ``NumericsError`` or ``ConfigurationError``; each says what to change.
    """
    exported = ensure_exported(find_minilm(model_path), CARD, cache_dir)
    encoder = OnnxEncoder(exported, CARD, threads=threads)
    guard = NumericsGuard(encoder, GOLDEN_PAIRS)
    guard.check()
    return LoadedEncoder(encoder, exported, guard)
