"""Fakes for users' own tests: the client's interface over memories in this process, no server needed."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from uuid import UUID

from precall.client.errors import ClientClosed, Unavailable
from precall.client.fake_memories import FakeMemories
from precall.client.fake_session import FakeAsyncSession
from precall.client.fake_store import DEFAULT_LADDER, FakeStore
from precall.client.hook_calls import HookCalls
from precall.client.memory import ForgottenScope
from precall.client.sync_client import BlockingClient
from precall.client.tracing import ClientHook


class FakeAsyncClient:
    """An ``AsyncClient`` without a server. Sessions are complete from the start; scoring is by keywords.

    ``hooks`` hear of sessions and reads; there are no pushes, streams or checks to hear of. ``go_offline``
    makes reads "degraded" and everything else raise Unavailable, until ``go_online``.
    """

    def __init__(self, *, ladder: Sequence[str] = DEFAULT_LADDER, hooks: Sequence[ClientHook] = ()) -> None:
        self._hooks = HookCalls(hooks)
        self._store = FakeStore(ladder)
        self._memories = FakeMemories(self._store, self._check_online)
        self._online = True
        self._entered = False
        self._open = False

    async def __aenter__(self) -> Self:
        if self._entered:
            raise ClientClosed("a client is entered once: make another one")
        self._entered = self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False

    @property
    def memories(self) -> FakeMemories:
        return self._memories

    def session(
        self, scope: Mapping[str, str], conversation_id: UUID | str | None = None
    ) -> FakeAsyncSession:
        if not self._open:
            raise ClientClosed("the client is not open: use it inside `async with`")
        return FakeAsyncSession(
            scope,
            conversation_id,
            store=self._store,
            memories=self._memories,
            check=self._check_online,
            hooks=self._hooks,
        )

    async def forget_scope(
        self, scope: Mapping[str, str], *, request_id: str | None = None
    ) -> ForgottenScope:
        return await self._memories.forget_scope(scope, request_id=request_id)

    def go_offline(self) -> None:
        """Pretend that the server is away."""
        self._online = False

    def go_online(self) -> None:
        """Pretend that the server is back."""
        self._online = True

    def _check_online(self) -> None:
        if not self._online:
            raise Unavailable("the pretended server is away")


class FakeClient(BlockingClient):
    """A ``Client`` without a server; see ``FakeAsyncClient``."""

    def __init__(self, *, ladder: Sequence[str] = DEFAULT_LADDER, hooks: Sequence[ClientHook] = ()) -> None:
        self._fake = FakeAsyncClient(ladder=ladder, hooks=hooks)
        super().__init__(self._fake)

    def go_offline(self) -> None:
        """Pretend that the server is away."""
        self._fake.go_offline()

    def go_online(self) -> None:
        """Pretend that the server is back."""
        self._fake.go_online()
