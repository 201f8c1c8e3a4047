"""The version that the client tells the server."""

from importlib import metadata
from typing import Final


def _installed_version() -> str:
    try:
        return metadata.version("precall")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


CLIENT_VERSION: Final = _installed_version()
