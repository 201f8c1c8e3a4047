"""The client for asyncio."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self
from uuid import UUID
from weakref import WeakSet

import grpc

from precall.client.admin import Admin
from precall.client.circuit import Circuit
from precall.client.clock import Clock, SystemClock
from precall.client.encoder import QueryEncoder
from precall.client.encoder_supply import EncoderSupply
from precall.client.errors import ClientClosed
from precall.client.hook_calls import HookCalls
from precall.client.live_checks import LiveChecks
from precall.client.memories import Memories
from precall.client.memory import ForgottenScope
from precall.client.options import ClientOptions
from precall.client.reports import Reporter
from precall.client.session import AsyncSession
from precall.client.spoken_vectors import SpokenVectors
from precall.client.stream_events import StreamEvents
from precall.client.tracing import ClientHook
from precall.client.transport import Transport
from precall.client.watcher import Watcher


class AsyncClient:
    """One connection to a server, for all conversations of this process.

    target: "host:port" or "http://…" without TLS, "https://…" with the system's certificates; ``tls`` gives
    others.  encoder: embeds queries instead of the server's own published encoder.  hooks: told of what
    happens (``precall.client.tracing``).  Entering does not fail while the server is away; it raises
    ExtraMissing when local encoding is required and not installed. A client is entered once; leaving it ends
    the sessions that are still open.
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str,
        options: ClientOptions | None = None,
        tls: grpc.ChannelCredentials | None = None,
        encoder: QueryEncoder | None = None,
        hooks: Sequence[ClientHook] = (),
        clock: Clock | None = None,
    ) -> None:
        self._target = target
        self._options = options or ClientOptions()
        self._clock = clock or SystemClock()
        self._transport = Transport(target, api_key=api_key, options=self._options, tls=tls)
        self._watcher = Watcher(self._transport, self._options, self._clock)
        self._encoders = EncoderSupply(self._transport, self._watcher, self._options, encoder)
        self._vectors = SpokenVectors(self._encoders, self._clock)
        self._hooks = HookCalls(hooks)
        self._stream_events = StreamEvents(self._watcher, self._hooks)
        self._reporter = Reporter(self._transport, self._options, self._hooks)
        self._checks = LiveChecks(
            share=self._options.live_check_share, wrong_bar=self._options.live_wrong_bar, clock=self._clock
        )
        self._circuit = Circuit(self._clock)
        self._memories = Memories(self._transport, self._options)
        self._admin = Admin(self._transport, self._options)
        self._sessions: WeakSet[AsyncSession] = WeakSet()
        self._entered = False
        self._open = False

    def __repr__(self) -> str:
        return f"AsyncClient({self._target!r})"

    async def __aenter__(self) -> Self:
        if self._entered:
            raise ClientClosed("a client is entered once: make another one")
        self._encoders.start()
        self._transport.open()
        self._stream_events.start()
        self._watcher.start()
        self._reporter.start()
        self._entered = self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        async with AsyncExitStack() as parts:  # in turn from the last one; a cancellation skips none
            parts.push_async_callback(self._transport.close)
            parts.push_async_callback(self._stream_events.close)
            parts.push_async_callback(self._watcher.close)
            parts.push_async_callback(self._reporter.close)
            parts.push_async_callback(self._encoders.close)
            for session in tuple(self._sessions):
                parts.push_async_exit(session)

    @property
    def memories(self) -> Memories:
        """Memories of any scope that the key may see."""
        return self._memories

    @property
    def admin(self) -> Admin:
        """Tenants and keys; needs an admin key."""
        return self._admin

    def session(self, scope: Mapping[str, str], conversation_id: UUID | str | None = None) -> AsyncSession:
        """A conversation of one scope, e.g. ``{"customer": "acme", "user": "dana"}``; use ``async with``.

        Raises InvalidScope for an empty scope, InvalidInput for a conversation id that is no UUID.
        """
        if not self._open:
            raise ClientClosed("the client is not open: use it inside `async with`")
        session = AsyncSession(
            scope,
            conversation_id,
            transport=self._transport,
            watcher=self._watcher,
            encoders=self._encoders,
            vectors=self._vectors,
            reporter=self._reporter,
            checks=self._checks,
            hooks=self._hooks,
            circuit=self._circuit,
            memories=self._memories,
            options=self._options,
            clock=self._clock,
        )
        self._sessions.add(session)
        return session

    async def forget_scope(
        self, scope: Mapping[str, str], *, request_id: str | None = None
    ) -> ForgottenScope:
        """Destroy everything on a rung and on all rungs below it. Raises on failure."""
        return await self._memories.forget_scope(scope, request_id=request_id)
