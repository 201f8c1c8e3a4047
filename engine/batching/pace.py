"""How fast the device has been working lately."""

_SMOOTHING = 0.2
_ASSUMED_TOKENS_A_SECOND = 2_000.0
_SHORTEST, _LONGEST = 0.05, 30.0


class Pace:
    """Tokens a second, averaged exponentially over batches; until the first one, a cautious assumption."""

    def __init__(self) -> None:
        self._tokens_a_second = _ASSUMED_TOKENS_A_SECOND
        self._has_observed = False

    def observe(self, tokens: int, seconds: float) -> None:
        if seconds <= 0.0:
            return
        latest = tokens / seconds
        if self._has_observed:
            self._tokens_a_second += _SMOOTHING * (latest - self._tokens_a_second)
        else:
            self._tokens_a_second = latest
            self._has_observed = True

    def seconds_for(self, tokens: int) -> float:
        """An estimate for ``tokens`` more, between 50 ms and 30 s."""
        return min(max(tokens / self._tokens_a_second, _SHORTEST), _LONGEST)
