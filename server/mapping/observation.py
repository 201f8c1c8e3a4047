"""What was said in a conversation, as it comes in."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.encoding.card import ModelCard
from precall.proto import anticipation_pb2
from precall.server.mapping.search import query_text
from precall.server.mapping.values import enumerated, uuid_list
from precall.server.mapping.vectors import single_vector

_ROLES: Final[dict[int, TurnRole]] = {
    anticipation_pb2.TURN_ROLE_USER: TurnRole.USER,
    anticipation_pb2.TURN_ROLE_ASSISTANT: TurnRole.ASSISTANT,
    anticipation_pb2.TURN_ROLE_TOOL: TurnRole.TOOL,
}


def observed_turn(request: anticipation_pb2.ObserveTurnRequest) -> Turn:
    """The turn without its vector. Raises InvalidInput."""
    return Turn(
        enumerated(request.role, _ROLES, "role"),
        query_text(request.text, "text"),
        tuple(uuid_list(request.used_memory_ids, "used_memory_ids")) if request.used_memory_ids else (),
    )


def observed_vector(
    request: anticipation_pb2.ObserveTurnRequest, card: ModelCard
) -> NDArray[np.float32] | None:
    """What the turn brought of the session's model, whose card is ``card``: float32 unit vector.

    One of another model is passed over: the client may not have heard of a change yet. Raises InvalidVector,
    and NotSupported, for a vector of the right model that is none.
    """
    sent = request.query_vector
    if not request.HasField("query_vector") or sent.model_fingerprint != card.fingerprint:
        return None
    return single_vector(sent, card, "query_vector")
