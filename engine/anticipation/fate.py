"""What became of pushed items."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fate:
    """So many items that a predictor brought left the cache, after they were used or without."""

    predictor: str
    used: bool
    items: int
