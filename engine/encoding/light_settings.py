"""How an encoder for clients is made for a model that is too large for them."""

from collections.abc import Callable
from dataclasses import dataclass

from precall.engine.encoding.light_encoder import SmallModel, find_small_model


@dataclass(frozen=True, slots=True)
class LightSettings:
    """``find_small``: finds and checks the model that clients can run; blocks; raises ModelUnavailable.
    ``fitted``: texts to fit on; at least ``least_fitted`` even if ``seconds`` are over by then.
    ``measured``: queries, and as many documents, to measure on.
    """

    find_small: Callable[[], SmallModel] = find_small_model
    fitted: int = 8_000
    least_fitted: int = 1_000
    measured: int = 500
    seconds: float = 1_200.0

    def __post_init__(self) -> None:
        if not 0 < self.least_fitted <= self.fitted:
            raise ValueError(f"least_fitted must lie between 1 and {self.fitted}, it is {self.least_fitted}")
        if self.measured < 10:
            raise ValueError(f"measured must be 10 or more, it is {self.measured}")
