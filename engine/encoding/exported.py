"""What an export left on disk: the files of an encoder that needs neither torch nor transformers."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

GRAPH_NAME = "encoder.onnx"
TOKENIZER_NAME = "tokenizer.json"
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """``name`` is relative to the folder; ``sha256`` is of the whole file, in hex."""

    name: str
    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "ExportedFile":
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(path.name, path.stat().st_size, digest)


@dataclass(frozen=True, slots=True)
class ExportedEncoder:
    """A folder and its files, checked when this was made. The server streams the same files to clients."""

    folder: Path
    files: tuple[ExportedFile, ...]

    @property
    def graph(self) -> Path:
        """``input_ids`` and ``attention_mask``, int64 ``(n, tokens)``, to ``vectors``, float32 ``(n, d)``."""
        return self.folder / GRAPH_NAME

    @property
    def tokenizer(self) -> Path:
        """A ``tokenizers`` file that neither pads nor truncates."""
        return self.folder / TOKENIZER_NAME


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """``recipe`` grows when the way of exporting changes, so that older exports are made anew."""

    recipe: int
    fingerprint: str
    files: tuple[ExportedFile, ...]

    def write(self, folder: Path) -> None:
        (folder / MANIFEST_NAME).write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "ExportManifest | None":
        """None if there is no manifest or it cannot be understood."""
        try:
            fields = json.loads((folder / MANIFEST_NAME).read_text())
            files = tuple(ExportedFile(**file) for file in fields["files"])
            return cls(recipe=fields["recipe"], fingerprint=fields["fingerprint"], files=files)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def describes(self, folder: Path) -> bool:
        """Whether each file is there, byte for byte."""
        try:
            return all(ExportedFile.of(folder / file.name) == file for file in self.files)
        except OSError:
            return False
