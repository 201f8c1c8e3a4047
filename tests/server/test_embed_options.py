"""An embedding call's own instruction and dimension, over real gRPC."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import DANA, Caller, running_stage, scope

from precall.engine.encoding.encoder import TextRole
from precall.proto import common_pb2, embedding_pb2
from precall.scoring.vectors import FLOAT32, from_bytes

QUERY, DOCUMENT = embedding_pb2.TEXT_ROLE_QUERY, embedding_pb2.TEXT_ROLE_DOCUMENT
FLEXIBLE = replace(FAKE_CARD, name="fake-flexible", matryoshka_dimensions=(8, 16, 32))
EMBED = "EmbeddingService/Embed"


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    """Of a server whose model takes instructions and can be cut."""
    encoder = FakeEncoder(FLEXIBLE, instructable=True)
    async with running_stage(tmp_path / "data", encoder) as stage:
        yield await stage.tenant("acme")


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Caller]:
    """Of a server whose model does neither."""
    async with running_stage(tmp_path / "data") as stage:
        yield await stage.tenant("acme")


def rows_of(vectors: common_pb2.Vectors) -> np.ndarray:
    return from_bytes(vectors.data, count=vectors.count, dimension=vectors.dimension, dtype=FLOAT32)


async def embedded(caller: Caller, *texts: str, **fields: object) -> embedding_pb2.EmbedResponse:
    request = {"texts": texts, "role": QUERY, "format": common_pb2.VECTOR_FORMAT_FLOAT32} | fields
    return await caller(EMBED, **request)


async def test_an_instruction_reaches_the_model_and_counts_in_the_usage(caller: Caller):
    told = await embedded(caller, "boats", "tea", instruction="Find songs about")
    as_one = await embedded(caller, "Find songs about boats", "Find songs about tea")
    plain = await embedded(caller, "boats", "tea")
    assert np.allclose(rows_of(told.vectors), rows_of(as_one.vectors), atol=1e-6)
    assert not np.allclose(rows_of(told.vectors), rows_of(plain.vectors), atol=0.1)
    assert [usage.given for usage in told.usage] == [4, 4]
    assert told.vectors.model_fingerprint == plain.vectors.model_fingerprint


@pytest.mark.parametrize(
    ("fields", "reason", "advice"),
    [
        ({"instruction": "Find songs", "role": DOCUMENT}, "INVALID_INPUT", "QUERY"),
        ({"instruction": " \n"}, "INVALID_INPUT", "blank"),
        ({"instruction": "x" * 2_001}, "TEXT_TOO_LONG", "shorten it"),
        ({"dimension": 7}, "INVALID_INPUT", "8, 16 or 32"),
        ({"dimension": 12}, "INVALID_INPUT", "8, 16 or 32"),
        ({"dimension": 33}, "INVALID_INPUT", "8, 16 or 32"),
        ({"dimension": 2**32 - 1}, "INVALID_INPUT", "8, 16 or 32"),
        ({"dimension": 8, "model_fingerprint": "0" * 32}, "MODEL_FINGERPRINT_MISMATCH", "this server runs"),
    ],
)
async def test_what_the_model_cannot_do_is_refused_as_a_whole(caller: Caller, fields, reason, advice):
    failure = await failure_of(embedded(caller, "boats", **fields))
    assert failure.reason == reason
    assert advice in failure.message


@pytest.mark.parametrize("fields", [{"instruction": "Find songs"}, {"dimension": 16}, {"dimension": 64}])
async def test_a_model_that_takes_neither_says_so(plain: Caller, fields):
    failure = await failure_of(embedded(plain, "boats", **fields))
    assert failure.reason == "NOT_SUPPORTED"
    assert "leave" in failure.message


async def test_its_own_dimension_is_any_models(plain: Caller):
    reply = await embedded(plain, "boats", dimension=32)
    assert (reply.vectors.dimension, reply.vectors.model_fingerprint) == (32, FAKE_CARD.fingerprint)


async def test_a_smaller_dimension_is_a_prefix_normalised_again_in_a_space_of_its_own(caller: Caller):
    whole = await embedded(caller, "boats", "", "tea")
    for dimension in (8, 16):
        reply = await embedded(caller, "boats", "", "tea", dimension=dimension)
        assert (reply.vectors.count, reply.vectors.dimension) == (3, dimension)
        assert reply.vectors.model_fingerprint == FLEXIBLE.cut_to(dimension).fingerprint
        rows = rows_of(reply.vectors)
        assert not rows[1].any() and [error.position for error in reply.errors] == [1]
        prefix = rows_of(whole.vectors)[[0, 2], :dimension]
        expected = prefix / np.linalg.norm(prefix, axis=1, keepdims=True)
        assert np.allclose(rows[[0, 2]], expected, atol=1e-6)
    assert whole.vectors.model_fingerprint == FLEXIBLE.fingerprint


@pytest.mark.parametrize("dimension", [0, 16])
async def test_either_name_of_the_model_is_taken(caller: Caller, dimension: int):
    for card in (FLEXIBLE, FLEXIBLE.cut_to(dimension or 32)):
        reply = await embedded(caller, "boats", dimension=dimension, model_fingerprint=card.fingerprint)
        assert reply.vectors.count == 1


async def test_a_cut_vector_is_no_vector_of_the_index(caller: Caller):
    """Refused by its fingerprint, and by its length when it is passed off as the index's."""
    cut = (await embedded(caller, "boats", dimension=16)).vectors
    passed_off = common_pb2.Vectors()
    passed_off.CopyFrom(cut)
    passed_off.model_fingerprint = FLEXIBLE.fingerprint
    for vectors, reason in ((cut, "MODEL_FINGERPRINT_MISMATCH"), (passed_off, "INVALID_VECTOR")):
        memory = common_pb2.MemoryInput(scope=scope(DANA), text="boats", vector=vectors)
        write = caller("MemoryService/WriteMemories", memories=[memory])
        assert (await failure_of(write)).reason == reason
        search = caller("RetrievalService/Search", scope=scope(DANA), query="boats", query_vector=vectors)
        assert (await failure_of(search)).reason == reason


async def test_a_prefix_of_zeros_is_an_error_of_its_text_alone(tmp_path: Path):
    class LateEncoder(FakeEncoder):
        """Says nothing about boats in its first half."""

        def _vector(self, token_ids: np.ndarray) -> np.ndarray:
            vector = super()._vector(token_ids)
            if np.array_equal(token_ids, boats):
                vector[:16] = 0.0
            return vector / np.linalg.norm(vector)

    encoder = LateEncoder(FLEXIBLE)
    boats = encoder.tokenize("boats", TextRole.QUERY, truncate=False).token_ids
    async with running_stage(tmp_path / "data", encoder) as stage:
        caller = await stage.tenant("acme")
        reply = await embedded(caller, "boats", "tea", dimension=16)
        assert [(error.position, error.reason) for error in reply.errors] == [(0, "NUMERICS")]
        assert not rows_of(reply.vectors)[0].any() and rows_of(reply.vectors)[1].any()
        assert not (await embedded(caller, "boats", dimension=32)).errors
