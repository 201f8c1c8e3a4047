"""The model that a server runs, as everything above the engine sees it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from precall.engine.encoding.encoder import Encoder
from precall.engine.encoding.exported import ExportedEncoder
from precall.server.settings import ServerSettings

DEFAULT_MODEL: Final = "minilm"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """``exported``: what clients may fetch to embed their own queries, None where there is nothing.

    ``agreement``: mean cosine between the exported encoder's vectors and the server's; 1.0: the same graph.
    """

    encoder: Encoder
    runtime: str
    exported: ExportedEncoder | None = None
    agreement: float = 1.0


def load_model(settings: ServerSettings) -> ServedModel:
    """Load and check the model that the settings name. Blocks: seconds the first time, for the export.

    Raises ModelUnavailable, NumericsError, ConfigurationError.
    """
    # Imported here: a server with another model must not need ONNX Runtime.
    from precall.engine.encoding.loading import load_default_encoder

    model_path = None if settings.model == DEFAULT_MODEL else Path(settings.model)
    loaded = load_default_encoder(settings.cache_dir, model_path, settings.threads)
    return ServedModel(loaded.encoder, "onnxruntime", loaded.exported)
