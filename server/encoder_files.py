"""The exported encoder's bytes on their way to a client."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Final

from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.errors import ModelUnavailable

CHUNK_BYTES: Final = 1024 * 1024


def encoder_fingerprint(exported: ExportedEncoder) -> str:
    """Names these very files: SHA-256 over their names and digests, its first 16 bytes in hex."""
    listing = "\n".join(f"{file.name} {file.sha256}" for file in exported.files)
    return hashlib.sha256(listing.encode()).hexdigest()[:32]


async def read_in_chunks(exported: ExportedEncoder) -> AsyncIterator[bytes]:
    """The files one after the other, a megabyte at a time, read off the event loop.

    Raises ModelUnavailable when a file has gone or changed its length since it was checked.
    """
    for file in exported.files:
        try:
            with (exported.folder / file.name).open("rb") as stream:
                sent = 0
                while chunk := await asyncio.to_thread(stream.read, CHUNK_BYTES):
                    sent += len(chunk)
                    yield chunk
        except OSError as error:
            raise ModelUnavailable(f"the exported encoder's file {file.name} cannot be read") from error
        if sent != file.size_bytes:
            raise ModelUnavailable(f"the exported encoder's file {file.name} has changed: restart the server")
