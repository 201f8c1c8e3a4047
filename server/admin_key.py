"""The file by which the command line on the server's own machine finds its admin key."""

import os
from pathlib import Path
from typing import Final

from precall.engine.errors import ConfigurationError
from precall.server.keys import KeyStore, Role

FILE_NAME: Final = "admin.key"


def ensure_admin_key(keys: KeyStore, data_dir: Path) -> Path | None:
    """Issue an admin key where there is none and write its token to ``<data_dir>/admin.key``, mode 0600.

    Returns the file if one was written. Raises ConfigurationError when it cannot be.
    """
    if keys.has_admin:
        return None
    path = data_dir / FILE_NAME
    issued = keys.issue(tenant_id=None, role=Role.ADMIN, label="made at the first start")
    try:
        write_private(path, issued.token + "\n")
    except OSError as error:
        keys.revoke(issued.key.id)  # a key whose token nobody has would keep the next start from making one
        raise ConfigurationError(f"the admin key cannot be written to {path}: {error.strerror}") from error
    return path


def read_admin_key(data_dir: Path) -> str | None:
    """The token that a server left in its data folder, or None where it cannot be read."""
    try:
        return (data_dir / FILE_NAME).read_text().strip() or None
    except OSError:
        return None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    aside = path.with_name(path.name + ".making")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
