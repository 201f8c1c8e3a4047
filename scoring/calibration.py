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
            slack=1.7341,
            depth_of_three=-2.0652,
            depth_of_ten=1.9023,
            distance=-0.7034,
            residual=-1.809,
            lead=-0.3487,
            gap=0.3363,
            relevance=0.8998,
            length=1.0966,
            held=0.235,
            new=2.4466,
            unknown=9.9963,
        ),
        intercept=1.5829,
        sure=2.1095,
        borderline=0.0,
    ),
    other=CalibratedPart(
        weights=Evidence(
            slack=0.3733,
            depth_of_three=-3.476,
            depth_of_ten=-2.5268,
            distance=-3.0401,
            residual=-0.9233,
            lead=-0.1888,
            gap=1.8756,
            relevance=1.7204,
            length=1.4929,
            held=0.8857,
            new=0.1237,
            unknown=1.5483,
        ),
        intercept=-0.1628,
        sure=2.8926,
        borderline=0.0,
    ),
    provenance="""
    MiniLM-L6, 8,183 memories in one rung: LoCoMo, SciFact's abstracts, XQuAD's English paragraphs; 1
    December 2026, by `precall.bench.coverage_fit` whole, on the tree of commit 92f219b. Fitted on 4,122
    continued and 1,515 other reads of LoCoMo 26 and 30, SciFact's training claims and the XQuAD
    paragraphs of even number, spoken with 64 to 1,024 items held and typed with 256 to 1,024. On the
    others, as shares of the reads before which a query was covered, served (served wrong): spoken, 256
    held, 2,659 reads: .912 (.75 %), by proof alone .221; 64, 128, 512 and 1,024 held, every fifth
    exchange: .841 (.93 %), .890 (.37 %), .931 (.37 %), .963 (.19 %); typed turns, 1,024 held, 1,364
    reads: .512 (.73 %), those whose turn is stored already .735 (.73 %), those whose turn is not .289
    (.73 %), by proof alone none; 256 and 512 held: .242 (.73 %), .345 (1.09 %). What value kinds and
    denials hold back, about 1 read in 200, is not taken off. Sessions are simulated with the formulas,
    the evidence and the held set of the product, between which no time passes. The held-out part was
    looked at several times while evidence and the aims of the bars were chosen.
    """,
)

_SHIPPED: Final = (_MINILM,)

CALIBRATIONS: Final = MappingProxyType({calibration.model: calibration for calibration in _SHIPPED})
"""By the fingerprint of the model. One that is not here has none: then only what is proven is served."""
