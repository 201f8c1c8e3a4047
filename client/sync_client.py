"""The same client without ``await``, for code that has no event loop; safe to use from any thread."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from uuid import UUID

import grpc

from precall.client.async_client import AsyncClient
from precall.client.encoder import QueryEncoder
from precall.client.interface import AsyncClientInterface
from precall.client.loop_thread import LoopThread
from precall.client.memory import ForgottenScope
from precall.client.options import ClientOptions
from precall.client.sync_admin import Admin
from precall.client.sync_memories import Memories
from precall.client.sync_session import Session
from precall.client.tracing import ClientHook


class BlockingClient:
    """Any client behind blocking calls: one background thread runs its event loop."""

    def __init__(self, inner: AsyncClientInterface) -> None:
        self._inner = inner
        self._thread = LoopThread()
        self._memories = Memories(inner.memories, self._thread)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._thread.run(self._inner.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.run(self._inner.__aexit__(kind, error, trace))
        finally:
            self._thread.close()

    @property
    def memories(self) -> Memories:
        """Memories of any scope that the key may see."""
        return self._memories

    def session(self, scope: Mapping[str, str], conversation_id: UUID | str | None = None) -> Session:
        """A conversation of one scope; enter it with ``with``."""
        return Session(self._inner.session(scope, conversation_id), self._thread)

    def forget_scope(self, scope: Mapping[str, str], *, request_id: str | None = None) -> ForgottenScope:
        """Destroy everything on a rung and on all rungs below it. Raises on failure."""
        return self._thread.run(self._inner.forget_scope(scope, request_id=request_id))


class Client(BlockingClient):
    """See ``AsyncClient``; use it inside ``with``."""

    def __init__(
        self,
        target: str,
        *,
        api_key: str,
        options: ClientOptions | None = None,
        tls: grpc.ChannelCredentials | None = None,
        encoder: QueryEncoder | None = None,
        hooks: Sequence[ClientHook] = (),
    ) -> None:
        """``hooks`` are called on the client's own thread."""
        inner = AsyncClient(target, api_key=api_key, options=options, tls=tls, encoder=encoder, hooks=hooks)
        super().__init__(inner)
        self._admin = Admin(inner.admin, self._thread)

    @property
    def admin(self) -> Admin:
        """Tenants and keys; needs an admin key."""
        return self._admin
