"""Readiness, alike over gRPC and HTTP, follows what the model can do."""

import asyncio
from collections.abc import Callable

import pytest
from fakes.encoder import FakeEncoder
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness import SERVICES, Stage, running_stage, settings_for
from probing import http

from precall.client import ClientOptions
from precall.engine.errors import ConfigurationError
from precall.server import health
from precall.server.app import CLIENT_PING_MILLISECONDS, PrecallServer
from precall.server.model import ServedModel

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def told(stage: Stage, wanted: Callable[[int], bool], service: str = "") -> None:
    """Wait on the health stream until it tells what is wanted."""
    stub = health_pb2_grpc.HealthStub(stage.channel)
    call = stub.Watch(health_pb2.HealthCheckRequest(service=service))
    async with asyncio.timeout(5):
        async for answer in call:
            if wanted(answer.status):
                break
    call.cancel()


async def test_health_follows_the_model_down_and_up_again(stage: Stage):
    stub = health_pb2_grpc.HealthStub(stage.channel)
    for service in ("", *(f"precall.v1.{name}" for name in SERVICES)):
        assert (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status == SERVING
    assert await http(stage, "/readyz") == (200, "ready\n")

    stage.encoder.broken = True
    await told(stage, lambda status: status == NOT_SERVING, "precall.v1.RetrievalService")
    status, body = await http(stage, "/readyz")
    assert status == 503
    assert "MODEL_UNAVAILABLE" in body
    assert await http(stage, "/healthz") == (200, "alive\n")

    stage.encoder.broken = False
    await told(stage, lambda status: status == SERVING, "precall.v1.RetrievalService")
    assert (await http(stage, "/readyz"))[0] == 200


async def test_reflection_names_every_service(stage: Stage):
    stub = reflection_pb2_grpc.ServerReflectionStub(stage.channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {f"precall.v1.{name}" for name in SERVICES} <= names
    assert set(health.SERVICES) == {f"precall.v1.{name}" for name in SERVICES}


async def test_http_answers_what_it_knows(stage: Stage):
    assert (await http(stage, "/nonsense"))[0] == 404
    status, body = await http(stage, "/metrics?x=1")
    assert status == 200
    assert "precall_ready 1.0" in body


async def test_http_survives_nonsense(stage: Stage):
    for data in (b"\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"\xff\xfe\r\n\r\n", b"x" * 20_000, b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.endpoints.metrics_port)
        writer.write(data)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert (await http(stage, "/healthz"))[0] == 200


async def test_a_port_in_use_is_told_and_nothing_is_left_running(tmp_path):
    async with running_stage(tmp_path / "first") as stage:
        for setting, port in (
            ("port", stage.endpoints.port),
            ("metrics_port", stage.endpoints.metrics_port),
        ):
            encoder = FakeEncoder()
            server = PrecallServer(
                settings_for(tmp_path / "second", **{setting: port}),
                lambda _, encoder=encoder: ServedModel(encoder, "fake"),
            )
            with pytest.raises(ConfigurationError, match=str(port)):
                await server.start()
    async with running_stage(tmp_path / "second"):
        pass  # the folder was given up


async def test_a_folder_in_use_is_told(tmp_path):
    async with running_stage(tmp_path / "data"):
        server = PrecallServer(settings_for(tmp_path / "data"), lambda _: ServedModel(FakeEncoder(), "fake"))
        with pytest.raises(ConfigurationError, match="another precall server"):
            await server.start()


def test_keepalive_of_client_and_server_agree():
    """A ping more often than the server permits ends in GOAWAY too_many_pings, minutes later."""
    assert ClientOptions().keepalive_time_ms >= 2 * CLIENT_PING_MILLISECONDS


async def test_a_proxys_absolute_uri_is_understood(stage: Stage):
    for target, status in (
        ("http://precall.internal:9464/metrics?x=1", b"200"),
        ("HTTP://precall.internal/healthz", b"200"),
        ("http://precall.internal", b"404"),
        ("ftp://precall.internal/metrics", b"404"),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.endpoints.metrics_port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: precall.internal\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 5)).split()[1] == status, target
        writer.close()
