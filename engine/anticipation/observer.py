"""What anticipation tells whoever measures it."""

from typing import Protocol


class AnticipationObserver(Protocol):
    def pushed(self, predictor: str, items: int) -> None: ...

    def dropped(self, predictor: str, items: int, *, used: bool) -> None:
        """So many items that it brought left a cache for want of room, or with their session. ``used``:
        whether a read or an answer had been built on them.
        """
        ...

    def predicted(self, predictor: str, seconds: float) -> None:
        """From the occasion, or the end of the predictor's run before, to its pushes queued."""
        ...

    def prediction_failed(self, predictor: str, reason: str) -> None: ...

    def invalidated(self, items: int) -> None: ...

    def confirmed(self, seconds: float) -> None:
        """How long a strict write waited for every cache to drop what it removed."""
        ...


class SilentObserver:
    """Measures nothing."""

    def pushed(self, predictor: str, items: int) -> None:
        pass

    def dropped(self, predictor: str, items: int, *, used: bool) -> None:
        pass

    def predicted(self, predictor: str, seconds: float) -> None:
        pass

    def prediction_failed(self, predictor: str, reason: str) -> None:
        pass

    def invalidated(self, items: int) -> None:
        pass

    def confirmed(self, seconds: float) -> None:
        pass
