"""The encoder for clients on its way to one: what it is, and its bytes."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.exported import ExportedEncoder, ExportedFile
from precall.engine.encoding.light_agreement import Agreement
from precall.engine.encoding.light_encoder import LightEncoder
from precall.engine.errors import ModelUnavailable
from precall.proto import embedding_pb2

CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PublishedEncoder:
    """``model_fingerprint``: of the model whose space the vectors live in. ``card``: of the model that is
    run, which says how texts are prompted and cut. ``files``: each with the folder that it lies in.
    ``agreement``: None where it is the model itself, which then may agree by ``cosine`` only in part.
    """

    model_fingerprint: str
    dimension: int
    card: ModelCard
    files: tuple[tuple[Path, ExportedFile], ...]
    cosine: float = 1.0
    agreement: Agreement | None = None

    @classmethod
    def exported(cls, card: ModelCard, exported: ExportedEncoder, cosine: float) -> Self:
        """The model itself."""
        files = tuple((exported.folder, file) for file in exported.files)
        return cls(card.fingerprint, card.dimension, card, files, cosine)

    @classmethod
    def light(cls, card: ModelCard, light: LightEncoder) -> Self:
        """A small model with a map into the space of ``card``'s."""
        return cls(
            card.fingerprint,
            card.dimension,
            light.small.card,
            tuple(light.files),
            light.agreement.cosine,
            light.agreement,
        )

    @property
    def fingerprint(self) -> str:
        """Names these very files: SHA-256 over their names and digests, its first 16 bytes in hex."""
        listing = "\n".join(f"{file.name} {file.sha256}" for _, file in self.files)
        return hashlib.sha256(listing.encode()).hexdigest()[:32]

    def manifest(self) -> embedding_pb2.ClientEncoderManifest:
        manifest = embedding_pb2.ClientEncoderManifest(
            model_fingerprint=self.model_fingerprint,
            encoder_fingerprint=self.fingerprint,
            format=embedding_pb2.CLIENT_ENCODER_FORMAT_ONNX,
            files=[
                embedding_pb2.ClientEncoderFile(name=f.name, size_bytes=f.size_bytes, sha256=f.sha256)
                for _, f in self.files
            ],
            dimension=self.dimension,
            max_tokens=self.card.max_tokens,
            query_prompt=self.card.query_prompt,
            agreement=self.cosine,
        )
        if self.agreement is not None:
            manifest.format = embedding_pb2.CLIENT_ENCODER_FORMAT_LEARNED_MAP
            manifest.scripts.extend(self.card.scripts)
            manifest.top_ten_overlap = self.agreement.top_ten_overlap
            manifest.distance_error = self.agreement.distance
            manifest.score_error = self.agreement.score
        return manifest

    async def chunks(self) -> AsyncIterator[bytes]:
        """The files one after the other, a megabyte at a time, read off the event loop.

        Raises ModelUnavailable when a file has gone, or is not what it was when it was checked.
        """
        for folder, file in self.files:
            digest = hashlib.sha256()
            try:
                with (folder / file.name).open("rb") as stream:
                    while chunk := await asyncio.to_thread(stream.read, CHUNK_BYTES):
                        await asyncio.to_thread(digest.update, chunk)
                        yield chunk
            except OSError as error:
                raise ModelUnavailable(f"the encoder's file {file.name} cannot be read") from error
            if digest.hexdigest() != file.sha256:
                raise ModelUnavailable(f"the encoder's file {file.name} has changed: restart the server")
