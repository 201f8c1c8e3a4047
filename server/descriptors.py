"""Room for the file descriptors that the settings may need."""

import resource
from typing import Final

from precall.engine.errors import ConfigurationError
from precall.engine.memory.open_files import DESCRIPTORS_A_FILE

_OTHERS: Final = 1_024
"""Connections, logs, libraries, and tenants' files beyond the limit while they are in use."""


def raise_descriptor_limit(open_files: int) -> None:
    """Raise this process's soft limit, if need be. Raises ConfigurationError when it may not be so high."""
    wanted = open_files * DESCRIPTORS_A_FILE + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        affordable = (hard - _OTHERS) // DESCRIPTORS_A_FILE
        advice = f"set max_open_files to at most {affordable}, or " if affordable > 0 else ""
        raise ConfigurationError(
            f"max_open_files {open_files} may take {wanted} file descriptors, this process may have {hard}: "
            f"{advice}raise the limit (ulimit -Hn)"
        )
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the limit of open files cannot be raised to {wanted} ({error}): set max_open_files lower"
        ) from error
