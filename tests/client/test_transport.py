"""Targets, keys, options, and what a status becomes."""

import dataclasses

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from precall.client import AsyncClient, ClientOptions, ConfigurationError, errors
from precall.client.backoff import Backoff
from precall.client.errors import from_rpc_error
from precall.client.methods import GET_TENANT
from precall.client.transport import Transport, wait_before_retry


def failure(code: grpc.StatusCode, **trailers: str) -> AioRpcError:
    pairs = [(key.replace("_", "-"), value) for key, value in trailers.items()]
    return AioRpcError(code, Metadata(), Metadata(*pairs), details="what happened")


@pytest.mark.parametrize(
    "target", ["", "ftp://host:1", "http://", "http://host/path", "host:1/path", "host:\udcff"]
)
def test_a_target_that_is_none_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="target"):
        AsyncClient(target, api_key="key")


@pytest.mark.parametrize(
    "address", ["127.0.0.1:99999", "host:65536", "host:0", "host:-1", "[::1]:70000", "h:"]
)
@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
def test_a_port_that_is_none_is_refused(scheme: str, address: str) -> None:
    with pytest.raises(ConfigurationError, match="port must be a number from 1 to 65535"):
        AsyncClient(scheme + address, api_key="key")


@pytest.mark.parametrize(
    "target", ["host:65535", "[::1]:1", "::1", "[::1]", "https://host", "http://host:80/"]
)
def test_a_target_with_a_good_port_or_none_is_taken(target: str) -> None:
    AsyncClient(target, api_key="key")


def test_credentials_and_http_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="https"):
        AsyncClient("http://host:1", api_key="key", tls=grpc.ssl_channel_credentials())


@pytest.mark.parametrize("key", ["", "with space", "new\nline", "ключ"])
def test_a_key_that_is_none_is_refused_and_never_shown(key: str) -> None:
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        AsyncClient("host:1", api_key=key)
    assert not key or key not in str(caught.value)
    assert "secret" not in repr(AsyncClient("host:1", api_key="secret"))


async def test_a_client_that_is_not_open_says_so() -> None:
    transport = Transport("host:1", api_key="key", options=ClientOptions())
    with pytest.raises(errors.ClientClosed, match="async with"):
        await transport.call(GET_TENANT, GET_TENANT.request(), deadline_seconds=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"read_deadline_ms": -1},
        {"read_deadline_ms": float("nan")},
        {"max_items": 0},
        {"write_deadline_seconds": 0},
        {"local_encoding": "auto"},
        {"reconnect_initial_seconds": 5.0, "reconnect_maximum_seconds": 1.0},
    ],
)
def test_options_are_checked_when_made(changes: dict) -> None:
    with pytest.raises(ConfigurationError):
        ClientOptions(**changes)
    with pytest.raises(dataclasses.FrozenInstanceError):
        ClientOptions().max_items = 5  # type: ignore[misc]


def test_zero_is_a_read_deadline() -> None:
    assert ClientOptions(read_deadline_ms=0).read_deadline_ms == 0


def test_the_reason_decides_before_the_code() -> None:
    error = from_rpc_error(failure(grpc.StatusCode.NOT_FOUND, precall_reason="SESSION_NOT_FOUND"))
    assert type(error) is errors.SessionNotFound and error.code is grpc.StatusCode.NOT_FOUND
    assert str(error) == "what happened"


def test_an_unknown_reason_keeps_its_name_and_takes_the_codes_class() -> None:
    error = from_rpc_error(failure(grpc.StatusCode.INVALID_ARGUMENT, precall_reason="NEWER_THAN_THIS"))
    assert type(error) is errors.InvalidInput and error.reason == "NEWER_THAN_THIS"


@pytest.mark.parametrize(("code", "kind"), errors.BY_CODE.items())
def test_without_a_reason_the_code_decides(code: grpc.StatusCode, kind: type[errors.PrecallError]) -> None:
    assert type(from_rpc_error(failure(code))) is kind


@pytest.mark.parametrize(("pushback", "seconds"), [("250", 0.25), ("0", 0.0), ("-1", None), ("soon", None)])
def test_pushback_is_read_with_care(pushback: str, seconds: float | None) -> None:
    error = from_rpc_error(failure(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc_retry_pushback_ms=pushback))
    assert isinstance(error, errors.Overloaded) and error.retry_after_seconds == seconds


@pytest.mark.parametrize(("drawn", "seconds"), [(0.0, 2.0), (0.5, 2.5), (0.999, 2.999)])
def test_clients_that_were_all_told_the_same_seconds_come_back_spread_and_not_sooner(
    drawn: float, seconds: float
) -> None:
    told = from_rpc_error(failure(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc_retry_pushback_ms="2000"))
    assert wait_before_retry(told, Backoff(1.0, 1.0), drawn) == pytest.approx(seconds)


async def test_a_transport_draws_anew_for_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([0.0, 0.5])
    transport = Transport("host:1", api_key="key", options=ClientOptions(), draw=lambda: next(drawn))
    refusal = failure(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc_retry_pushback_ms="1000")
    answers = iter([refusal, refusal, None])
    slept: list[float] = []

    async def answer(*_: object, **__: object) -> object:
        if (each := next(answers)) is not None:
            raise each
        return "reply"

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(transport, "_unary", lambda _: answer)
    monkeypatch.setattr("asyncio.sleep", sleep)
    assert await transport.call(GET_TENANT, GET_TENANT.request(), deadline_seconds=10) == "reply"
    assert slept == pytest.approx([1.0, 1.25])


def test_backoff_grows_to_its_maximum_and_starts_over() -> None:
    backoff = Backoff(1.0, 4.0)
    waits = [backoff.next() for _ in range(5)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, (1, 2, 4, 4, 4), strict=True))
    backoff.reset()
    assert backoff.next() <= 1.0


def test_a_target_without_a_port_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="port is missing"):
        Transport("localhost", api_key="key", options=ClientOptions())
