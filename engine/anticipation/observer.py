"""What anticipation tells whoever measures it."""

from typing import Protocol


class AnticipationObserver(Protocol):
    def pushed(self, predictor: str, items: int) -> None: ...

    def predicted(self, seconds: float) -> None:
        """From the observation's arrival to its pushes queued."""
        ...

    def prediction_failed(self, reason: str) -> None: ...

    def invalidated(self, items: int) -> None: ...

    def confirmed(self, seconds: float) -> None:
        """How long a strict write waited for every cache to drop what it removed."""
        ...


class SilentObserver:
    """Measures nothing."""

    def pushed(self, predictor: str, items: int) -> None:
        pass

    def predicted(self, seconds: float) -> None:
        pass

    def prediction_failed(self, reason: str) -> None:
        pass

    def invalidated(self, items: int) -> None:
        pass

    def confirmed(self, seconds: float) -> None:
        pass
