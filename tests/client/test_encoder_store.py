"""The encoder's files on the client's disk: what bears a file's name is the whole file, at every moment."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from precall.client.encoder_store import MANIFEST, EncoderStore, is_sound
from precall.client.transport import Transport
from precall.proto import embedding_pb2

FILES: Final = {"encoder.onnx": b"o" * 2_000, "tokenizer.json": b"t" * 700}
CHUNK: Final = 300


def manifest() -> embedding_pb2.ClientEncoderManifest:
    return embedding_pb2.ClientEncoderManifest(
        model_fingerprint="model",
        encoder_fingerprint="encoder",
        format=embedding_pb2.CLIENT_ENCODER_FORMAT_ONNX,
        files=[
            embedding_pb2.ClientEncoderFile(
                name=name, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
            )
            for name, content in FILES.items()
        ],
    )


class WatchedTransport:
    """Sends the files in small chunks, and looks into the folder before each of them."""

    def __init__(self, folder: Path, *, breaks_after: int = 10**9) -> None:
        self.folder = folder
        self.breaks_after = breaks_after
        self.looks = 0

    async def messages(self, method: Any, request: Any) -> AsyncIterator[embedding_pb2.ClientEncoderChunk]:
        yield embedding_pb2.ClientEncoderChunk(manifest=manifest())
        content = b"".join(FILES.values())
        for begin in range(0, len(content), CHUNK):
            self.look()
            if begin >= self.breaks_after:
                return
            yield embedding_pb2.ClientEncoderChunk(data=content[begin : begin + CHUNK])

    def look(self) -> None:
        self.looks += 1
        for name, content in FILES.items():
            path = self.folder / name
            assert not path.exists() or path.read_bytes() == content, f"{name} is there in part"
        assert not (self.folder / MANIFEST).exists(), "the manifest comes last"


def store_on(transport: WatchedTransport) -> EncoderStore:
    return EncoderStore(transport.folder.parent, cast(Transport, transport))


async def test_a_file_has_its_name_once_it_is_whole_and_the_manifest_comes_last(tmp_path: Path) -> None:
    transport = WatchedTransport(tmp_path / "encoder")
    stored = await store_on(transport).fetch("model")
    assert is_sound(stored) and transport.looks > len(FILES)
    assert {path.name for path in stored.folder.iterdir()} == {*FILES, MANIFEST}


async def test_a_connection_that_breaks_leaves_whole_files_or_none(tmp_path: Path) -> None:
    transport = WatchedTransport(tmp_path / "encoder", breaks_after=CHUNK * 7)
    with pytest.raises(Exception, match="early"):
        await store_on(transport).fetch("model")
    assert {path.name for path in transport.folder.iterdir()} == {"encoder.onnx"}
    transport.look()
