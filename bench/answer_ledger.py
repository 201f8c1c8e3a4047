"""Judges the answers of a mixed load: each request once, and rightly or with an error of its own kind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.mixed_workload import LONG_TEXT, Fate, MixedRequest

AGREEMENT: Final = 0.9999
"""Least cosine of an answer and of what the same encoder gives for the text alone."""

CRASHED: Final = "MODEL_UNAVAILABLE"
TOO_LONG: Final = "TEXT_TOO_LONG"
CANCELLED: Final = "CANCELLED"
EXPIRED: Final = "DEADLINE_EXCEEDED"

_OWN_REASONS: Final = {
    Fate.SERVED: frozenset[str](),
    Fate.TOO_LONG: frozenset[str](),
    Fate.CANCELLED: frozenset({CANCELLED}),
    Fate.EXPIRED: frozenset({EXPIRED}),
}
"""Beside ``CRASHED``, which may hit any text that reached the device."""

_KEPT_FAULTS: Final = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What a text got: ``vector``, or ``reason`` of its error."""

    vector: NDArray[np.float32] | None = None
    reason: str = ""


class AnswerLedger:
    """Holds counts and no answers, so that it does not grow under the load that it judges.

    ``outcomes`` counts texts: ``right``, or the reason of their error. ``faults`` are sentences about what
    must not be, the first few of ``fault_count``.
    """

    def __init__(self, requests: int, expected: Mapping[str, NDArray[np.float32]]) -> None:
        """``expected``: the unit vector of each text, float32, shape ``(dimension,)``.

        Raises ``ValueError`` if two texts have vectors too near to tell a mix-up.
        """
        _require_distinct(expected)
        self._expected = expected
        self._answered = bytearray(requests)
        self.outcomes: Counter[str] = Counter()
        self.fates: Counter[Fate] = Counter()
        self.faults: list[str] = []
        self.fault_count = 0
        self.worst_agreement = 1.0

    @property
    def unanswered(self) -> int:
        return self._answered.count(0)

    def close(self, request: MixedRequest, answers: Sequence[Answer]) -> None:
        """The answers to all texts of ``request``, in order."""
        if self._answered[request.number]:
            self._fault(request, "was answered twice")
        self._answered[request.number] = 1
        self.fates[request.fate] += 1
        if len(answers) != len(request.texts):
            self._fault(request, f"has {len(request.texts)} texts and got {len(answers)} answers")
        for text, answer in zip(request.texts, answers, strict=False):
            self._judge(request, text, answer)

    def close_whole(self, request: MixedRequest, reason: str) -> None:
        """One error stands for the whole request."""
        self.close(request, [Answer(reason=reason)] * len(request.texts))

    def _judge(self, request: MixedRequest, text: str, answer: Answer) -> None:
        self.outcomes[answer.reason or "right"] += 1
        if answer.vector is None:
            if text == LONG_TEXT and answer.reason == TOO_LONG:
                return
            if answer.reason not in _OWN_REASONS[request.fate] | {CRASHED}:
                self._fault(request, f"got {answer.reason or 'neither a vector nor a reason'}")
            return
        if text == LONG_TEXT:
            self._fault(request, "was too long and got a vector")
            return
        agreement = float(answer.vector @ self._expected[text])
        self.worst_agreement = min(self.worst_agreement, agreement)
        if not agreement >= AGREEMENT:
            self._fault(request, f"got a vector with cosine {agreement:.5f} to the one of its text")

    def _fault(self, request: MixedRequest, sentence: str) -> None:
        self.fault_count += 1
        if len(self.faults) < _KEPT_FAULTS:
            self.faults.append(f"request {request.number} ({request.fate.value}) {sentence}")


def _require_distinct(expected: Mapping[str, NDArray[np.float32]]) -> None:
    matrix = np.stack(list(expected.values()))
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, 0.0)
    if not cosines.max() < AGREEMENT - 0.001:
        raise ValueError(f"two texts have vectors with cosine {cosines.max():.5f}: use others")
