"""The newest version that a session's own writes made, for as long as the server has it."""

import logging

_log = logging.getLogger(__name__)


class WrittenVersion:
    """What every read of the session demands to see.

    A server that was put back to an earlier state (a restored backup, say) never gets to a version that it
    has lost, or gets there by other writes. To demand it would leave each read degraded; so, once the server
    says where it stands, what it has lost is no longer waited for.
    """

    def __init__(self) -> None:
        self._version = 0

    @property
    def version(self) -> int:
        """0 before the first write."""
        return self._version

    def note(self, version: int) -> None:
        """A write was acked with this version."""
        self._version = max(self._version, version)

    def server_stands_at(self, version: int, *, asked_at: int) -> bool:
        """The server said so in reply to what was asked while ``asked_at`` was the version written here.

        Returns whether it had gone back behind that: versions only grow, so writes that were acked are gone.
        """
        if version >= asked_at:
            return False
        if self._version == asked_at:  # else something was written since, and that stands
            self._version = version
        _log.error(
            "the server is at version %d and had acked %d: it was put back to an earlier state, and what "
            "this session wrote meanwhile is not there any more",
            version,
            asked_at,
        )
        return True
