"""The model that a session's memories have their vectors from."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.card import ModelCard


class ConversationModel(Protocol):
    """A session keeps to the one it was opened with: to the end of its stream, whatever serves its tenant."""

    @property
    def card(self) -> ModelCard: ...

    async def embed_turn(self, text: str) -> NDArray[np.float32]:
        """What was said, as a question: float32 unit vector, ``(card.dimension,)``. Long texts are cut, which
        a guess can afford.
        """
        ...
