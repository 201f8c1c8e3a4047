"""Exports MiniLM once to ONNX, pooling and normalisation inside the graph, and keeps it on disk."""

import contextlib
import fcntl
import io
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.exported import (
    GRAPH_NAME,
    MANIFEST_NAME,
    TOKENIZER_NAME,
    ExportedEncoder,
    ExportedFile,
    ExportManifest,
)
from precall.engine.encoding.minilm import ModelFiles
from precall.engine.encoding.onnx_library import load_onnxruntime
from precall.engine.errors import ModelUnavailable, NumericsError

if TYPE_CHECKING:
    import torch

RECIPE = 1
"""Raise it with every change to what is exported."""

_OPSET = 17
_MINIMUM_COSINE = 0.9999
_GOLDEN_TEXTS = (
    "yes",
    "Where did we leave the spare keys?",
    "Dana moved to Pune in March and now works from the office on Thursdays.",
    "The trip was put off twice, first for the rain and then for her brother's wedding. " * 6,
)


def default_cache_dir() -> Path:
    """``precall/encoders`` under ``$XDG_CACHE_HOME``, or under ``~/.cache`` where that is not set."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "precall" / "encoders"


def ensure_exported(
    files: ModelFiles,
    card: ModelCard,
    cache_dir: Path | None = None,
    *,
    suffix: str = "",
    write_graph: Callable[[ModelFiles, Path], None] | None = None,
) -> ExportedEncoder:
    """The export of ``card``'s model under ``<cache_dir>/<fingerprint>``, made now if it is absent or
    damaged.

    An export in place is compared with its checksums. A new one is written aside, compared with torch, and
    renamed into place; only one process exports at a time and the others wait for it and use what it made.

    ``suffix`` and ``write_graph`` are for another graph of the same model: ``write_graph`` writes it into the
    folder that it is given, and it is kept under ``<cache_dir>/<fingerprint><suffix>``.

    Raises ``ModelUnavailable`` when it cannot be made (the message says what to do) and ``NumericsError``
    when what came out disagrees with torch. A failure leaves no folder that a later start would take for an
    export.
    """
    root = cache_dir if cache_dir is not None else default_cache_dir()
    folder = root / f"{card.fingerprint}{suffix}"
    exported = _sound_export(folder, card)
    if exported is not None:
        return exported
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _exclusive(root / f"{folder.name}.lock"):
            exported = _sound_export(folder, card)
            if exported is None:
                exported = _export(files, card, folder, write_graph or _write_graph)
            return exported
    except OSError as error:
        raise ModelUnavailable(
            f"the encoder cannot be exported to {folder} ({error.strerror or error}): "
            "make room there or point the cache directory at a folder that can be written"
        ) from error


def _sound_export(folder: Path, card: ModelCard) -> ExportedEncoder | None:
    manifest = ExportManifest.read(folder)
    if manifest is None or manifest.recipe != RECIPE or manifest.fingerprint != card.fingerprint:
        return None
    if {file.name for file in manifest.files} != {GRAPH_NAME, TOKENIZER_NAME} or not manifest.describes(
        folder
    ):
        return None
    return ExportedEncoder(folder, manifest.files)


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases by itself if this process dies."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _export(
    files: ModelFiles, card: ModelCard, folder: Path, write_graph: Callable[[ModelFiles, Path], None]
) -> ExportedEncoder:
    prefix = f"{folder.name}.partial-"
    for abandoned in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        _write_tokenizer(files, aside / TOKENIZER_NAME)
        write_graph(files, aside)
        exported = tuple(ExportedFile.of(aside / name) for name in (GRAPH_NAME, TOKENIZER_NAME))
        ExportManifest(RECIPE, card.fingerprint, exported).write(aside)
        folder.mkdir(exist_ok=True)
        # The manifest goes last: until it is there, the folder does not count as an export.
        for name in (GRAPH_NAME, TOKENIZER_NAME, MANIFEST_NAME):
            _sync(aside / name)
            (aside / name).replace(folder / name)
        return ExportedEncoder(folder, exported)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _write_tokenizer(files: ModelFiles, target: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(files.folder / TOKENIZER_NAME))
    # As published it pads and cuts every text to 128 tokens, silently.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(target), pretty=False)


def _write_graph(files: ModelFiles, aside: Path) -> None:
    write_transformer(files, aside, _pooled, output="vectors", axes={0: "texts"})


def write_transformer(
    files: ModelFiles,
    aside: Path,
    headed: "Callable[[torch.nn.Module], torch.nn.Module]",
    *,
    output: str,
    axes: dict[int, str],
) -> None:
    """Write ``aside/encoder.onnx`` and compare it with the torch model it came from.

    ``headed`` puts on the transformer what makes the graph's one ``output`` of its hidden states; ``axes``
    are those of it that vary. Raises ``ModelUnavailable`` or ``NumericsError``.
    """
    try:
        import torch
        from transformers import AutoModel
    except ImportError as error:
        raise ModelUnavailable(
            "exporting the encoder needs torch and transformers, once: `pip install precall[server]`, "
            "or copy the cache directory from a machine that has exported it"
        ) from error

    target = aside / GRAPH_NAME
    with _quiet():
        transformer = AutoModel.from_pretrained(
            str(files.folder), local_files_only=True, attn_implementation="eager", dtype=torch.float32
        )
        model = headed(transformer).eval()
        token_ids = torch.ones((2, 8), dtype=torch.int64)
        mask = torch.ones_like(token_ids)
        mask[1, 5:] = 0
        dynamic = {0: "texts", 1: "tokens"}
        torch.onnx.export(
            model,
            (token_ids, mask),
            str(target),
            input_names=["input_ids", "attention_mask"],
            output_names=[output],
            dynamic_axes={"input_ids": dynamic, "attention_mask": dynamic, output: axes},
            opset_version=_OPSET,
            dynamo=False,
        )
    _compare_with_torch(model, aside)


def _pooled(transformer: "torch.nn.Module") -> "torch.nn.Module":
    """Token vectors averaged over the mask, then of length 1."""
    import torch

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            kept = attention_mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * kept).sum(dim=1) / kept.sum(dim=1)
            return torch.nn.functional.normalize(mean, dim=1)

    return Pooled()


def _compare_with_torch(model: "torch.nn.Module", aside: Path) -> None:
    import torch
    from tokenizers import Tokenizer

    onnxruntime = load_onnxruntime()
    tokenizer = Tokenizer.from_file(str(aside / TOKENIZER_NAME))
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(list(_GOLDEN_TEXTS))
    token_ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
    mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
    session = onnxruntime.InferenceSession(str(aside / GRAPH_NAME), providers=["CPUExecutionProvider"])
    (ours,) = session.run(None, {"input_ids": token_ids, "attention_mask": mask})
    with torch.inference_mode():
        theirs = model(torch.from_numpy(token_ids), torch.from_numpy(mask)).numpy()
    worst = float(np.einsum("...i,...i->...", ours, theirs).min())
    if not worst >= _MINIMUM_COSINE:
        raise NumericsError(
            f"the exported encoder disagrees with torch (cosine {worst:.6f}, at least {_MINIMUM_COSINE}): "
            "install the pinned versions of torch, transformers and onnxruntime",
            metadata={"check": "export", "cosine": f"{worst:.6f}"},
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's warnings and progress bars away from the user: none asks for an action."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "transformers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
