"""Models prompt questions and documents differently: whatever goes to one, goes in its role."""

import asyncio
import threading
from pathlib import Path

import pytest
from harness import DANA, Stage, remember, running_stage, search
from watching import watching

from precall.engine.encoding.encoder import TextRole, TokenizedText
from precall.proto import embedding_pb2

MEMORY, QUESTION, TURN = "Dana likes boats", "what does she like", "let us talk of boats"


class RoleBook:
    """The roles in which each text was tokenised; predictions bring theirs in their own time."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self._noted = threading.Condition()
        self.roles: dict[str, set[TextRole]] = {}
        tokenize = stage.encoder.tokenize

        def noting(text: str, role: TextRole, **rest: bool) -> TokenizedText:
            with self._noted:
                self.roles.setdefault(text, set()).add(role)
                self._noted.notify_all()
            return tokenize(text, role, **rest)

        monkeypatch.setattr(stage.encoder, "tokenize", noting)

    async def wait_for(self, text: str) -> None:
        def wait() -> bool:
            with self._noted:
                return self._noted.wait_for(lambda: text in self.roles, 10)

        assert await asyncio.to_thread(wait), f"{text!r} never reached the model"


async def test_every_text_reaches_the_model_in_its_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_stage(tmp_path / "data", complete_below=0) as stage:
        caller = await stage.tenant("acme")
        book = RoleBook(stage, monkeypatch)
        await remember(caller, DANA, MEMORY)
        assert await search(caller, DANA, QUESTION) == [MEMORY]
        async with watching(caller) as watch:
            session = await watch.open_session(DANA)
            await watch.observe(session, 1, TURN)
            await book.wait_for(TURN)
        for text, role in (
            ("a question", embedding_pb2.TEXT_ROLE_QUERY),
            ("a document", embedding_pb2.TEXT_ROLE_DOCUMENT),
        ):
            await caller("EmbeddingService/Embed", texts=[text], role=role)
    assert book.roles[MEMORY] == book.roles["a document"] == {TextRole.DOCUMENT}
    assert book.roles[QUESTION] == book.roles[TURN] == book.roles["a question"] == {TextRole.QUERY}
