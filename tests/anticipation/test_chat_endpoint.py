"""A language model's endpoint: what it is asked, and each way in which it can fail."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from precall.engine.anticipation.chat_endpoint import ChatEndpoint, ChatEndpointSettings
from precall.engine.errors import ConfigurationError, DeadlineExceeded, ModelUnavailable
from tests.fakes.chat_server import ChatServer, chat_server

MESSAGES = [{"role": "user", "content": "what next?"}]


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with chat_server() as served:
        yield served


async def ask(server: ChatServer, *, timeout: float = 10.0, key: str = "") -> str:
    settings = ChatEndpointSettings(server.url + "/", "small-model", key, timeout_seconds=timeout)
    endpoint = ChatEndpoint(settings)
    try:
        return await endpoint.complete(MESSAGES)
    finally:
        await endpoint.close()


async def test_it_is_asked_as_openai_is(server: ChatServer) -> None:
    server.answer = "an answer"
    assert await ask(server, key="secret") == "an answer"
    assert server.paths == ["POST /v1/chat/completions HTTP/1.1"]
    (asked,) = server.requests
    assert (asked["model"], asked["messages"], asked["stream"]) == ("small-model", MESSAGES, False)
    assert server.request_headers[0]["authorization"] == "bearer secret"
    await ask(server)
    assert "authorization" not in server.request_headers[1], "no key, no header"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {}}]}',
        b'{"choices": [{"message": {"content": null}}]}',
        b"\xff\xfe",
        b'{"choices": [{"message": {"content": "' + b"x" * 300_000 + b'"}}]}',
    ],
)
async def test_what_is_no_answer_is_refused(server: ChatServer, raw: bytes) -> None:
    server.raw = raw
    with pytest.raises(ModelUnavailable):
        await ask(server)


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_an_error_is_an_error(server: ChatServer, status: int) -> None:
    server.status = status
    with pytest.raises(ModelUnavailable, match=str(status)):
        await ask(server)


async def test_a_redirect_is_not_followed(server: ChatServer) -> None:
    server.status, server.headers = 307, {"location": server.url + "/elsewhere"}
    with pytest.raises(ModelUnavailable, match="307"):
        await ask(server)
    assert len(server.paths) == 1


async def test_a_proxy_of_the_environment_is_not_used(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await ask(server) == "[]"


async def test_an_answer_that_begins_and_does_not_end_runs_out_of_time(server: ChatServer) -> None:
    server.held = asyncio.Event()
    async with asyncio.timeout(20):
        with pytest.raises(DeadlineExceeded):
            await ask(server, timeout=0.2)


async def test_nobody_there() -> None:
    async with chat_server() as gone:
        pass
    with pytest.raises(ModelUnavailable):
        await ask(gone)


async def test_further_calls_wait_for_their_turn_and_not_on_their_own_time(server: ChatServer) -> None:
    server.held = asyncio.Event()
    endpoint = ChatEndpoint(ChatEndpointSettings(server.url, "m", timeout_seconds=30, calls_at_once=1))
    first = asyncio.create_task(endpoint.complete(MESSAGES))
    await server.arrived.wait()
    second = asyncio.create_task(endpoint.complete(MESSAGES))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(server.requests) == 1
    server.held.set()
    assert await first == await second == "[]"
    await endpoint.close()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"url": "ftp://x"}, "http"),
        ({"url": "localhost:80"}, "http"),
        ({"model": ""}, "model"),
        ({"timeout_seconds": 0}, "timeout"),
    ],
)
def test_settings_that_cannot_work_are_refused(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ChatEndpointSettings(**({"url": "http://x", "model": "m"} | arguments))  # type: ignore[arg-type]


def test_the_key_is_not_printed() -> None:
    assert "secret" not in repr(ChatEndpointSettings("http://x", "m", "secret"))
