"""What a text retrieves for a session, with the claim that the answer allows."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.predictor import AnsweredQuery, Proposal, Situation
from precall.engine.clock import Clock
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search
from precall.scoring.fusion import keyword_share
from precall.scoring.negation import negates
from precall.scoring.query_terms import QueryTerms

_EVERYTHING_SENT: Final = 0.0


async def answer_text(
    situation: Situation,
    text: str,
    *,
    predictor: str,
    items: int,
    clock: Clock,
    worth: float = 1.0,
    vector: NDArray[np.float32] | None = None,
) -> Proposal:
    """The best ``items`` memories for a text, and the floor under which others were left out.

    ``worth``: of the proposal. ``vector``: that stands for the text, float32 unit vector; None: the text's
    own is made. Raises what the model's `embed_turn` raises.
    """
    if vector is None:
        vector = await situation.model.embed_turn(text)
    asked = QueryTerms.of(text)
    share = keyword_share(asked, situation.model.card.scripts)
    # What may be served only later is sent now: the floor must still be true then.
    query = Query(vector, asked.terms, clock.wall(), limit=items, include_upcoming=True, keyword_share=share)
    hits = await search(situation.partitions, query)
    floor = hits[-1].score.total if len(hits) == items else _EVERYTHING_SENT
    return Proposal(
        predictor=predictor,
        memory_ids=[hit.memory.id for hit in hits],
        version=situation.version,
        query=AnsweredQuery(vector, frozenset(asked.terms), floor, share, negates(text)),
        worth=worth,
    )
