"""How sure a cache may be of its best, fitted on conversations: numbers, and where they come from.

The log-odds that the server's own first three are among the held ten, and no evidence of a question is lost,
are a weighted sum of `precall.scoring.evidence`. `precall.bench.coverage_fit` fits the weights and chooses
the bars; see there for the data.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from precall.scoring import evidence
from precall.scoring.evidence import Evidence


@dataclass(frozen=True, slots=True)
class CalibratedPart:
    """``weights``: of each piece of evidence. A read is *sure* from the one bar on, in log-odds, and not
    worth a race below the other.

    Invariant: the weight of ``slack`` is not negative, so that a lower floor never makes a cache less sure.
    """

    weights: Evidence
    intercept: float
    sure: float
    borderline: float

    def __post_init__(self) -> None:
        if self.weights.slack < 0:
            raise ValueError("the weight of slack is negative: a lower floor would make the cache less sure")
        if self.borderline > self.sure:
            raise ValueError(f"the bar of borderline, {self.borderline}, is over that of sure, {self.sure}")

    def confidence(self, gathered: Evidence) -> float:
        """Log-odds that the held best are the server's."""
        terms = zip(evidence.values(self.weights), evidence.values(gathered), strict=True)
        return self.intercept + sum(weight * value for weight, value in terms)


@dataclass(frozen=True, slots=True)
class Calibration:
    """For vectors of one model. ``continued``: for a read that goes on with what the nearest pushed query
    began, as a spoken question does with its partial transcript; ``other``: for any other. ``provenance``:
    data, date, and what was measured, in words.
    """

    model: str
    continued: CalibratedPart
    other: CalibratedPart
    provenance: str


_MINILM: Final = Calibration(
    model="31d82a75fb93c741295d89a2b335c943",
    continued=CalibratedPart(
        weights=Evidence(
            slack=2.0346,
            depth_of_three=-3.1721,
            depth_of_ten=1.3567,
            distance=0.5733,
            residual=-2.1251,
            lead=-0.3173,
            gap=-0.2897,
            relevance=0.9719,
            length=0.4151,
            held=0.3245,
            new=4.4266,
            unknown=8.7526,
        ),
        intercept=2.8177,
        sure=1.894,
        borderline=0.0,
    ),
    other=CalibratedPart(
        weights=Evidence(
            slack=0.569,
            depth_of_three=-2.7387,
            depth_of_ten=-3.7083,
            distance=-4.4975,
            residual=0.8595,
            lead=-0.5314,
            gap=1.0193,
            relevance=1.421,
            length=1.1178,
            held=0.9229,
            new=-0.8353,
            unknown=2.7979,
        ),
        intercept=3.7554,
        sure=2.7784,
        borderline=0.0,
    ),
    provenance="""
    MiniLM-L6, 8,183 memories in one rung: LoCoMo, SciFact's abstracts, XQuAD's English paragraphs; 1 December
    2026. Fitted on 4,096 spoken and 2,178 typed reads of LoCoMo 26 and 30, SciFact's training claims and the
    XQuAD paragraphs of even number, at 64 to 1,024 items held. On the others, of all reads, served (wrong):
    spoken, 256 held, 2,659 reads: .912 (.75 %), by proof alone .221; typed turns, 1,024 held, 1,364 reads:
    .467 (.51 %), of those whose turn is stored already .620 (.29 %), by proof alone none.
    """,
)

_SHIPPED: Final = (_MINILM,)

CALIBRATIONS: Final = MappingProxyType({calibration.model: calibration for calibration in _SHIPPED})
"""By the fingerprint of the model. One that is not here has none: then only what is proven is served."""
