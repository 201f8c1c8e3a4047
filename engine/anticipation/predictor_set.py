"""The predictors of one server, from its settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from precall.engine.anticipation.call_start import CallStart
from precall.engine.anticipation.chat_endpoint import ChatEndpoint
from precall.engine.anticipation.co_use import CoUse
from precall.engine.anticipation.foreseen import Foreseen
from precall.engine.anticipation.neighbours import Neighbours
from precall.engine.anticipation.predictor import Learner, Predictor
from precall.engine.anticipation.recent_turns import MOST_ITEMS, RecentTurns
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.clock import Clock

NAMES: Final = frozenset(each.name for each in (RecentTurns, Neighbours, CoUse, CallStart, Foreseen))
"""Of all predictors that there are."""


@dataclass(frozen=True, slots=True)
class PredictorSet:
    """``learners``: those of the predictors that remember. ``endpoint``: what one of them asks, if any."""

    predictors: Sequence[Predictor]
    learners: Sequence[Learner]
    endpoint: ChatEndpoint | None = None

    @classmethod
    def of(cls, settings: AnticipationSettings, clock: Clock) -> "PredictorSet":
        """Raises ConfigurationError when a language model is configured and cannot be asked."""
        co_use = CoUse(clock, settings.co_use)
        predictors: list[Predictor] = [
            RecentTurns(clock, items_per_query=settings.items_per_query, most_items=MOST_ITEMS),
            co_use,
            Neighbours(clock, items=settings.neighbour_items),
            CallStart(clock, items_per_group=settings.call_start_items),
        ]
        if settings.language_model is None:
            return cls(predictors, [co_use])
        endpoint = ChatEndpoint(settings.language_model)
        return cls([*predictors, Foreseen(endpoint, clock, settings.foreseen)], [co_use], endpoint)

    async def close(self) -> None:
        if self.endpoint is not None:
            await self.endpoint.close()
