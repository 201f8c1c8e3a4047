"""An encoder for clients, derived from a model that is too large for them: a small model and a map."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.exported import ExportedEncoder, ExportedFile
from precall.engine.encoding.light_agreement import Agreement
from precall.engine.encoding.light_map import LearnedMap
from precall.engine.encoding.minilm import CARD, find_minilm

RECIPE: Final = 1
"""Raise it with every change to how maps are made, so that older ones are made anew."""

MAP_NAME: Final = "map.npy"
MANIFEST_NAME: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class SmallModel:
    """What clients can run: an export, checked, and the card of the model that it is of."""

    exported: ExportedEncoder
    card: ModelCard


def find_small_model(cache_dir: Path | None = None) -> SmallModel:
    """MiniLM, exported into ``cache_dir`` (default: the user's cache). Blocks: some seconds the first time.

    Raises ModelUnavailable, NumericsError.
    """
    from precall.engine.encoding.onnx_export import ensure_exported

    return SmallModel(ensure_exported(find_minilm(), CARD, cache_dir), CARD)


@dataclass(frozen=True, slots=True)
class LightEncoder:
    """``model_fingerprint``: of the large model, whose space the vectors lie near. ``map``: the file in
    ``folder``, checked when this was made; the small model's files stay where its export is.
    """

    model_fingerprint: str
    small: SmallModel
    folder: Path
    map: ExportedFile
    agreement: Agreement

    @property
    def files(self) -> Iterator[tuple[Path, ExportedFile]]:
        """Where each file is that a client needs, the small model's first."""
        for file in self.small.exported.files:
            yield self.small.exported.folder, file
        yield self.folder, self.map


@dataclass(frozen=True, slots=True)
class LightFolder:
    """Where the map of one model lies: one folder for each model, small model and recipe."""

    folder: Path

    @classmethod
    def of(cls, root: Path, model_fingerprint: str, small: SmallModel) -> "LightFolder":
        return cls(root / f"{model_fingerprint}-{small.card.fingerprint[:8]}-{RECIPE}")

    def read(self, model_fingerprint: str, small: SmallModel) -> LightEncoder | None:
        """None when there is none, or it is damaged, or of another model than it should be."""
        try:
            fields = json.loads((self.folder / MANIFEST_NAME).read_text(encoding="utf-8"))
            announced = ExportedFile(**fields["map"])
            if (
                fields["model_fingerprint"] != model_fingerprint
                or fields["small_fingerprint"] != small.card.fingerprint
                or ExportedFile.of(self.folder / MAP_NAME) != announced
            ):
                return None
            agreement = Agreement(**fields["agreement"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return LightEncoder(model_fingerprint, small, self.folder, announced, agreement)

    def write(
        self, model_fingerprint: str, small: SmallModel, learned: LearnedMap, agreement: Agreement
    ) -> LightEncoder:
        """Written aside, then renamed in place of what is there. Of two that write at once one stays.

        Raises OSError.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.parent))
        try:
            learned.write(aside / MAP_NAME)
            file = ExportedFile.of(aside / MAP_NAME)
            fields = {
                "model_fingerprint": model_fingerprint,
                "small_fingerprint": small.card.fingerprint,
                "map": asdict(file),
                "agreement": asdict(agreement),
            }
            manifest = json.dumps(fields, indent=2, sort_keys=True) + "\n"
            (aside / MANIFEST_NAME).write_text(manifest, encoding="utf-8")
            for name in (MAP_NAME, MANIFEST_NAME):
                _sync(aside / name)
            shutil.rmtree(self.folder, ignore_errors=True)  # what is damaged or of another model
            aside.rename(self.folder)
        except OSError:
            if (others := self.read(model_fingerprint, small)) is None:
                raise
            return others
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return LightEncoder(model_fingerprint, small, self.folder, file, agreement)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
