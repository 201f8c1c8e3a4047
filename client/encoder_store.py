"""The encoder that the server publishes, on this computer's disk."""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from precall.client.errors import FingerprintMismatch, NotSupported, PrecallError, Unavailable
from precall.client.methods import GET_CLIENT_ENCODER
from precall.client.transport import Transport
from precall.proto import embedding_pb2
from precall.scoring.approximation import Approximation

MAX_ENCODER_BYTES: Final = 1024 * 1024 * 1024
MANIFEST: Final = "manifest.json"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_READ_BYTES: Final = 1024 * 1024
_FORMATS: Final = (
    embedding_pb2.CLIENT_ENCODER_FORMAT_ONNX,
    embedding_pb2.CLIENT_ENCODER_FORMAT_LEARNED_MAP,
)


class EncoderDamaged(PrecallError):
    """Files on disk or bytes received are not those that the manifest names."""

    reason = "ENCODER_DAMAGED"


@dataclass(frozen=True, slots=True)
class EncoderFile:
    """One file of an encoder; ``sha256`` in lower-case hex."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LearnedMap:
    """``dimension``: of the vectors that it leads to. ``scripts``: those that the encoder before it reads;
    empty: all. ``approximation``: what the server measured of it.
    """

    dimension: int
    scripts: tuple[str, ...]
    approximation: Approximation


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEncoder:
    """An encoder whose files lie, checked, in ``folder``.

    ``map``: what leads from its vectors into the space of the model; None: they lie there.
    """

    folder: Path
    model_fingerprint: str
    encoder_fingerprint: str
    max_tokens: int
    query_prompt: str
    files: tuple[EncoderFile, ...]
    map: LearnedMap | None = None

    def file(self, suffix: str) -> Path:
        """The one file with this ending. Raises EncoderDamaged when there is none, or more than one."""
        names = [file.name for file in self.files if file.name.endswith(suffix)]
        if len(names) != 1:
            raise EncoderDamaged(f"the encoder has {len(names)} files that end in {suffix}, it needs one")
        return self.folder / names[0]

    def prompted(self, text: str) -> str:
        """The text as the model wants a query; "{text}" in the prompt stands for it."""
        return self.query_prompt.replace("{text}", text) if self.query_prompt else text


class EncoderStore:
    """Folder per encoder fingerprint. A file is written aside and renamed, the manifest last; every file's
    SHA-256 is checked when it arrives and whenever it is loaded, and a damaged one is fetched again. Several
    processes may fetch at once: each renames whole, equal files.
    """

    def __init__(self, folder: Path, transport: Transport) -> None:
        self._folder = folder
        self._transport = transport

    async def fetch(self, model_fingerprint: str) -> StoredEncoder:
        """The server's encoder for this model, from disk when it is there and sound.

        Raises FingerprintMismatch or NotSupported when the server has none that this client can run,
        EncoderDamaged when what arrived is not what was announced, and the transport's errors.
        """
        request = embedding_pb2.GetClientEncoderRequest(model_fingerprint=model_fingerprint)
        async with contextlib.aclosing(self._transport.messages(GET_CLIENT_ENCODER, request)) as chunks:
            stored = await self._announced(chunks, model_fingerprint)
            if not await asyncio.to_thread(is_sound, stored):
                await self._receive(chunks, stored)
        return stored

    async def _announced(
        self, chunks: AsyncIterator[embedding_pb2.ClientEncoderChunk], model_fingerprint: str
    ) -> StoredEncoder:
        async for chunk in chunks:
            if not chunk.HasField("manifest"):
                break
            stored = _stored(self._folder, chunk.manifest)
            if stored.model_fingerprint != model_fingerprint:
                raise FingerprintMismatch(
                    f"the server's encoder is of model {stored.model_fingerprint}, not {model_fingerprint}"
                )
            return stored
        raise EncoderDamaged("the encoder did not begin with its manifest")

    async def _receive(
        self, chunks: AsyncIterator[embedding_pb2.ClientEncoderChunk], stored: StoredEncoder
    ) -> None:
        stored.folder.mkdir(parents=True, exist_ok=True)
        rest = b""
        for file in stored.files:
            aside = stored.folder / f".{file.name}.{uuid.uuid4().hex}.part"
            try:
                rest = await _write(aside, file, rest, chunks)
                await asyncio.to_thread(_sync_and_rename, aside, stored.folder / file.name)
            finally:
                aside.unlink(missing_ok=True)
        aside = stored.folder / f".{MANIFEST}.{uuid.uuid4().hex}.part"
        aside.write_text(json.dumps(_facts(stored), indent=2))
        await asyncio.to_thread(_sync_and_rename, aside, stored.folder / MANIFEST)


def is_sound(stored: StoredEncoder) -> bool:
    """Every file is there with the announced size and hash, and so is the manifest."""
    try:
        if json.loads((stored.folder / MANIFEST).read_text()) != _facts(stored):
            return False
        return all(
            (stored.folder / file.name).stat().st_size == file.size_bytes
            and _sha256(stored.folder / file.name) == file.sha256
            for file in stored.files
        )
    except (OSError, ValueError):
        return False


async def _write(
    path: Path, file: EncoderFile, rest: bytes, chunks: AsyncIterator[embedding_pb2.ClientEncoderChunk]
) -> bytes:
    """Write one file's bytes; returns what was received beyond it."""
    digest = hashlib.sha256()
    missing = file.size_bytes
    with path.open("wb") as out:
        while missing:
            if not rest:
                chunk = await anext(chunks, None)
                if chunk is None:
                    raise Unavailable(f"the encoder's file {file.name} ended {missing} bytes early")
                rest = chunk.data
            part, rest = rest[:missing], rest[missing:]
            digest.update(part)
            out.write(part)
            missing -= len(part)
    if digest.hexdigest() != file.sha256:
        raise EncoderDamaged(
            f"the encoder's file {file.name} arrived damaged: its SHA-256 is not the announced"
        )
    return rest


def _stored(folder: Path, manifest: embedding_pb2.ClientEncoderManifest) -> StoredEncoder:
    if manifest.format not in _FORMATS:
        raise NotSupported("the server's encoder has a format that this client cannot run: update precall")
    names = [manifest.encoder_fingerprint, *(file.name for file in manifest.files)]
    if not all(_SAFE_NAME.fullmatch(name) for name in names):
        raise EncoderDamaged("the encoder's manifest names files that are no plain file names")
    if sum(file.size_bytes for file in manifest.files) > MAX_ENCODER_BYTES:
        raise NotSupported(f"the server's encoder is over {MAX_ENCODER_BYTES} bytes")
    return StoredEncoder(
        folder=folder / manifest.encoder_fingerprint,
        model_fingerprint=manifest.model_fingerprint,
        encoder_fingerprint=manifest.encoder_fingerprint,
        max_tokens=manifest.max_tokens,
        query_prompt=manifest.query_prompt,
        files=tuple(EncoderFile(file.name, file.size_bytes, file.sha256) for file in manifest.files),
        map=_map(manifest) if manifest.format == embedding_pb2.CLIENT_ENCODER_FORMAT_LEARNED_MAP else None,
    )


def _map(manifest: embedding_pb2.ClientEncoderManifest) -> LearnedMap:
    try:
        approximation = Approximation(manifest.distance_error, manifest.score_error)
    except ValueError as error:
        raise EncoderDamaged(f"the encoder's manifest is wrong: {error}") from error
    return LearnedMap(manifest.dimension, tuple(manifest.scripts), approximation)


def _facts(stored: StoredEncoder) -> dict[str, Any]:
    facts = {
        "model_fingerprint": stored.model_fingerprint,
        "encoder_fingerprint": stored.encoder_fingerprint,
        "max_tokens": stored.max_tokens,
        "query_prompt": stored.query_prompt,
        "files": [
            {"name": file.name, "size_bytes": file.size_bytes, "sha256": file.sha256} for file in stored.files
        ],
    }
    if stored.map is not None:  # a list where there was a tuple, as it comes back from the file
        facts["map"] = asdict(stored.map) | {"scripts": list(stored.map.scripts)}
    return facts


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _sync_and_rename(aside: Path, path: Path) -> None:
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
