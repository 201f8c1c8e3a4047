"""What is visible is what is meant to be; it mirrors the engine and the wire, and it is light."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import precall.client as public
from precall.client import errors, fake_limits, methods
from precall.client.fake_memories import FakeMemories
from precall.client.interface import AsyncClientInterface, AsyncMemoriesInterface, AsyncSessionInterface
from precall.client.memories import Memories
from precall.client.sync_client import BlockingClient
from precall.client.sync_memories import Memories as BlockingMemories
from precall.client.sync_session import Session
from precall.engine import errors as engine_errors
from precall.engine.memory import memory as engine_memory
from precall.proto import (
    admin_pb2,
    anticipation_pb2,
    embedding_pb2,
    memory_pb2,
    retrieval_pb2,
)


def test_all_is_exactly_what_is_imported() -> None:
    tree = ast.parse(Path(inspect.getfile(public)).read_text())
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(public.__all__)
    assert len(public.__all__) == len(set(public.__all__))


def test_importing_it_loads_nothing_heavy() -> None:
    script = (
        "import sys, precall.client; "
        "heavy = {'torch', 'faiss', 'transformers', 'onnxruntime', 'tokenizers', 'pydantic', 'matplotlib',"
        " 'precall.engine', 'precall.server', 'google.rpc', 'structlog'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def classes(module: object) -> dict[str, type[BaseException]]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }


def test_the_engines_errors_are_mirrored() -> None:
    mine, theirs = classes(errors), classes(engine_errors)
    assert theirs.keys() <= mine.keys()
    for name, theirs_class in theirs.items():
        assert mine[name].reason == theirs_class.reason  # type: ignore[attr-defined]
        for parent in theirs_class.__mro__:
            if parent.__name__ in mine:
                assert issubclass(mine[name], mine[parent.__name__])
    reasons = [value.reason for value in mine.values()]  # type: ignore[attr-defined]
    assert len(reasons) == len(set(reasons)), "a reason names one class"


def test_the_fakes_limits_are_the_engines() -> None:
    limits = {name: value for name, value in vars(fake_limits).items() if name.startswith("MAX_")}
    assert limits and limits == {name: getattr(engine_memory, name) for name in limits}


def test_every_method_is_one_of_the_wire() -> None:
    services = {
        f"/{service.full_name}/{method.name}": method
        for module in (admin_pb2, anticipation_pb2, embedding_pb2, memory_pb2, retrieval_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    made = [value for value in vars(methods).values() if isinstance(value, methods.Method)]
    assert made
    for each in made:
        described = services[each.full_path]
        assert described.input_type == each.request.DESCRIPTOR
        assert described.output_type == each.response.DESCRIPTOR


def signatures(owner: type) -> dict[str, str]:
    return {
        name: str(inspect.signature(value))
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("interface", "implementations"),
    [
        (AsyncSessionInterface, (public.AsyncSession, public.FakeAsyncSession, Session)),
        (AsyncMemoriesInterface, (Memories, FakeMemories, BlockingMemories)),
    ],
)
def test_real_fake_and_blocking_have_the_same_methods(
    interface: type, implementations: tuple[type, ...]
) -> None:
    for implementation in implementations:
        assert signatures(implementation) == signatures(interface), implementation


def test_clients_have_the_same_methods() -> None:
    wanted = signatures(AsyncClientInterface).keys()
    for implementation in (public.AsyncClient, public.FakeAsyncClient, BlockingClient):
        assert wanted <= signatures(implementation).keys()
