"""Which formulas these are: server and client rank alike only if both have the same."""

from typing import Final

SCORING_VERSION: Final = 2
"""Rises with every change of a score: of a formula, a constant, or how a text becomes terms."""
