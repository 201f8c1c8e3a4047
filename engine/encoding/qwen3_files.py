"""Where a Qwen3 model lies on this machine, and which one it is."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from precall.engine.encoding.qwen3_settings import Qwen3Settings
from precall.engine.errors import ModelUnavailable

DIGESTS_NAME = ".precall-sha256.json"
"""Kept beside the weights, so that gigabytes are not hashed at every start."""

_CONFIG = "config.json"
_TOKENIZER = "tokenizer.json"
_SINGLE = "model.safetensors"
_SHARDED = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Qwen3Files:
    """A folder that has all the parts of a model.

    ``weights_sha256`` is the digest of the one weights file; of several, that of the lines
    ``digest, two spaces, name`` in order of name, as ``sha256sum *.safetensors | sha256sum`` prints it.
    ``revision`` is made from ``config.json`` and ``tokenizer.json``, which change vectors as well: the same
    files have the same identity in the hub's cache and in any other folder.
    """

    folder: Path
    name: str
    revision: str
    weights_sha256: str
    shards: tuple[Path, ...]

    @property
    def config(self) -> Path:
        return self.folder / _CONFIG

    @property
    def tokenizer(self) -> Path:
        return self.folder / _TOKENIZER


def find_qwen3(settings: Qwen3Settings) -> Qwen3Files:
    """Find and digest a model's files: the first time as slow as the disk, later at once.

    Raises ``ModelUnavailable`` if the model, or a file of it, is missing, or if its weights are not those
    that the settings ask for. The network is never used.
    """
    folder = _folder(settings)
    for name in (_CONFIG, _TOKENIZER):
        if not (folder / name).is_file():
            raise ModelUnavailable(f"the model in {folder} has no {name}: {_advice(settings)}")
    shards = _shards(folder, settings)
    digest = _weights_digest(shards)
    if settings.weights_sha256 is not None and digest != settings.weights_sha256.lower():
        raise ModelUnavailable(
            f"the weights in {folder} have SHA-256 {digest[:12]}… where the settings ask for "
            f"{settings.weights_sha256[:12]}…: {_advice(settings)}",
            metadata={"actual_sha256": digest, "expected_sha256": settings.weights_sha256},
        )
    identity = hashlib.sha256((folder / _CONFIG).read_bytes() + (folder / _TOKENIZER).read_bytes())
    return Qwen3Files(
        folder=folder,
        name=settings.name or _name(folder),
        revision=identity.hexdigest()[:16],
        weights_sha256=digest,
        shards=tuple(shards),
    )


def _folder(settings: Qwen3Settings) -> Path:
    folder = Path(settings.model).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if isinstance(settings.model, Path) or folder.is_absolute() or settings.model.count("/") != 1:
        raise ModelUnavailable(f"there is no folder {settings.model} with a model: {_advice(settings)}")
    from huggingface_hub import snapshot_download

    try:
        cached = snapshot_download(settings.model, revision=settings.revision, local_files_only=True)
    except (OSError, ValueError) as error:  # not cached, or not a name that the hub could know
        raise ModelUnavailable(
            f"the model {settings.model} (revision {settings.revision}) is not on this machine: "
            f"{_advice(settings)}"
        ) from error
    return Path(cached)


def _advice(settings: Qwen3Settings) -> str:
    if Path(settings.model).expanduser().is_dir() or isinstance(settings.model, Path):
        return "point the setting at a folder with config.json, tokenizer.json and *.safetensors of the model"
    return (
        f"run `hf download {settings.model} --revision {settings.revision}` where there is a network and "
        "bring the hub's cache (HF_HOME) here, or point the setting at a folder with the model's files"
    )


def _name(folder: Path) -> str:
    """``owner/model`` in the hub's cache (``models--owner--model/snapshots/commit``), else the folder's."""
    repository = folder.parent.parent.name
    if folder.parent.name == "snapshots" and repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/")
    return folder.name


def _shards(folder: Path, settings: Qwen3Settings) -> list[Path]:
    index = folder / _SHARDED
    if not index.is_file():
        names = [_SINGLE]
    else:
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ModelUnavailable(f"{index} is damaged: {_advice(settings)}") from error
    shards = [folder / name for name in names]
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise ModelUnavailable(f"the model in {folder} has no {', '.join(missing)}: {_advice(settings)}")
    return shards


def _weights_digest(shards: Sequence[Path]) -> str:
    known = _read_digests(shards[0].parent / DIGESTS_NAME)
    digests: dict[str, dict[str, object]] = {}
    for shard in shards:
        status = shard.stat()
        seen: dict[str, object] = {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}
        earlier = known.get(shard.name, {})
        if earlier.items() >= seen.items() and isinstance(earlier.get("sha256"), str):
            digests[shard.name] = earlier
        else:
            with shard.open("rb") as file:
                digests[shard.name] = seen | {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    if digests != known:
        _write_digests(shards[0].parent / DIGESTS_NAME, digests)
    if len(shards) == 1:
        return str(digests[shards[0].name]["sha256"])
    lines = "".join(f"{digests[name]['sha256']}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def _read_digests(path: Path) -> dict[str, dict[str, object]]:
    """Nothing if the file is missing or cannot be understood: then everything is hashed again."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {name: entry for name, entry in entries.items() if isinstance(entry, dict)}


def _write_digests(path: Path, digests: dict[str, dict[str, object]]) -> None:
    # A model's folder may well be read-only: then it is hashed at every start, and that is all.
    with suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(digests, file, indent=2, sort_keys=True)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
