"""Tells events to hooks, whatever those do."""

import logging
from collections.abc import Sequence

from precall.client.tracing import ClientEvent, ClientHook

_log = logging.getLogger(__name__)


class HookCalls:
    """The hooks of one client, called in their order."""

    def __init__(self, hooks: Sequence[ClientHook] = ()) -> None:
        self._hooks = tuple(hooks)
        self._failed: set[int] = set()

    def __bool__(self) -> bool:
        """Whether anybody listens."""
        return bool(self._hooks)

    def tell(self, event: ClientEvent) -> None:
        """Raises nothing that a hook raises: the first error of each is logged."""
        for position, hook in enumerate(self._hooks):
            try:
                hook(event)
            except Exception:
                if position not in self._failed:
                    self._failed.add(position)
                    _log.exception(
                        "a hook failed on %s; its later errors are not logged", type(event).__name__
                    )
