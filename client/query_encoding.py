"""A read's query in its two forms, made in this process."""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.client.encoder_supply import EncoderSupply
from precall.client.subscription import Subscription
from precall.scoring.approximation import Approximation
from precall.scoring.query_terms import QueryTerms

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A query's two forms. ``vector``: float32 unit vector, shape ``(dimension,)``; None when no local
    encoder could make one. ``approximation``: how far it may be from the model's own; None: it is that.
    """

    vector: NDArray[np.float32] | None
    model_fingerprint: str
    terms: QueryTerms
    truncated: bool
    approximation: Approximation | None = None


class QueryEncoding:
    """Embeds the queries of one session, where this process has an encoder that is of use."""

    def __init__(self, subscription: Subscription, encoders: EncoderSupply) -> None:
        self._subscription = subscription
        self._encoders = encoders

    async def encode(self, query: str) -> Encoded:
        """Never raises for what an encoder throws: the server can still embed the query itself."""
        terms = QueryTerms.of(query)
        encoder = self._encoders.encoder
        if encoder is None or not self._is_of_use(encoder.model_fingerprint):
            return Encoded(None, "", terms, truncated=False)
        try:
            made = await encoder.encode(query)
        except Exception:
            _log.exception("the local encoder failed; the server is asked instead")
            return Encoded(None, "", terms, truncated=False)
        return Encoded(made.vector, encoder.model_fingerprint, terms, made.truncated, made.approximation)

    def _is_of_use(self, model_fingerprint: str) -> bool:
        """Whether vectors of this model can be compared with those held, or with the server's."""
        held = self._subscription.held_fingerprint
        return model_fingerprint == held or fits_the_server(model_fingerprint, self._subscription)


def fits_the_server(model_fingerprint: str, subscription: Subscription) -> bool:
    """As far as is known: before the first connection every model may be the one."""
    return subscription.server_fingerprint in ("", model_fingerprint)
