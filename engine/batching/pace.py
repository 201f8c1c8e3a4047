"""How fast the device has been working lately."""

_SMOOTHING = 0.2
_SHORTEST, _LONGEST = 0.05, 30.0


class Pace:
    """Units (tokens, characters) a second, averaged exponentially over batches."""

    def __init__(self, assumed: float = 2_000.0) -> None:
        """``assumed``: units a second until the first batch."""
        self._units_a_second = assumed
        self._has_observed = False

    def observe(self, amount: int, seconds: float) -> None:
        if amount <= 0 or seconds <= 0.0:
            return
        latest = amount / seconds
        if self._has_observed:
            self._units_a_second += _SMOOTHING * (latest - self._units_a_second)
        else:
            self._units_a_second = latest
            self._has_observed = True

    def seconds_for(self, amount: int) -> float:
        """An estimate for ``amount`` more, between 50 ms and 30 s."""
        return min(max(amount / self._units_a_second, _SHORTEST), _LONGEST)
