"""The reads of one session, as its hooks and the server hear of them."""

from datetime import datetime

from precall.client.circuit import Circuit
from precall.client.clock import Clock
from precall.client.encoder_supply import EncoderSupply
from precall.client.hook_calls import HookCalls
from precall.client.live_checks import LiveChecks, Verdict
from precall.client.query_encoding import QueryEncoding
from precall.client.question import Question
from precall.client.read import Read, SearchResult
from precall.client.read_report import read_report
from precall.client.reading import Reader
from precall.client.reports import Reporter
from precall.client.server_search import ServerSearch
from precall.client.subscription import Subscription
from precall.client.tracing import ReadChecked, ReadFinished, ReadStarted
from precall.client.transport import Transport
from precall.proto import common_pb2


class SessionReads:
    """Puts a session's reader together and tells what comes of it."""

    def __init__(
        self,
        subscription: Subscription,
        scope: common_pb2.Scope,
        *,
        transport: Transport,
        encoders: EncoderSupply,
        circuit: Circuit,
        checks: LiveChecks,
        reporter: Reporter,
        hooks: HookCalls,
        clock: Clock,
    ) -> None:
        self._session_id = subscription.session_id
        self._checks = checks
        self._reporter = reporter
        self._hooks = hooks
        self._started = 0
        self._server = ServerSearch(subscription, scope, transport=transport, circuit=circuit, clock=clock)
        self._reader = Reader(
            subscription,
            QueryEncoding(subscription, encoders),
            self._server,
            checks,
            clock,
            reported=self._report,
        )

    async def read(self, question: Question) -> Read:
        """See ``Reader.read``. A read that is cancelled is told as well."""
        self._started += 1
        number = self._started
        self._hooks.tell(ReadStarted(self._session_id, number))
        try:
            read = await self._reader.read(question)
        except BaseException as error:
            self._hooks.tell(ReadFinished(self._session_id, number, None, error))
            raise
        self._hooks.tell(ReadFinished(self._session_id, number, read))
        return read

    async def search(
        self, question: Question, *, mode: str, as_of: datetime | None, truncate: bool
    ) -> SearchResult:
        """See ``ServerSearch.ask``."""
        return await self._server.ask(question, mode=mode, as_of=as_of, truncate=truncate)

    async def close(self) -> None:
        """End what still runs for reads that are answered already."""
        try:
            await self._reader.close()
        finally:
            await self._server.close()

    def _report(self, read: Read, verdict: Verdict | None) -> None:
        self._reporter.add_read(read_report(self._session_id, read, verdict))
        if verdict in (Verdict.RIGHT, Verdict.WRONG):
            wrong = verdict is Verdict.WRONG
            self._hooks.tell(ReadChecked(self._session_id, wrong, self._checks.strictness.strict))
