"""How an engine fails and comes back, on a vLLM that is made to fail."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.encoding.vllm_engine import PooledBatch, VllmEngine
from precall.engine.errors import InvalidInput, ModelUnavailable
from tests.vllm.fake_vllm import WIDTH, FakeVllm

PARAMETERS: dict[str, object] = {"task": "embed"}


@pytest.fixture
def vllm() -> FakeVllm:
    return FakeVllm()


def engine_of(vllm: FakeVllm, *, pass_seconds: float = 60.0) -> VllmEngine:
    return VllmEngine(vllm.library(), {"model": "tiny"}, width=WIDTH, pass_seconds=pass_seconds)


def prompts(*first_tokens: int) -> list[NDArray[np.int64]]:
    return [np.array([token, 99]) for token in first_tokens]


def pool_when_back(engine: VllmEngine) -> PooledBatch:
    """Ask until the replacement answers: every refusal before that is a typed one."""
    for thread in threading.enumerate():
        if thread.name == "precall-vllm-start":
            thread.join()
    return engine.pool(prompts(7), PARAMETERS)


def test_rows_come_back_in_order_with_their_parameters(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    pooled = engine.pool(prompts(10, 30, 20), PARAMETERS, salt="s")
    engine.close()
    assert pooled.rows[:, 0].tolist() == [10.0, 30.0, 20.0] and pooled.rows.shape == (3, WIDTH)
    assert pooled.rows.dtype == np.float32 and not pooled.errors
    assert vllm.parameters == [PARAMETERS] * 3 and not vllm.engines[0].clearings
    assert [request["cache_salt"] for request in vllm.requests] == ["s"] * 3
    assert len({request["request_id"] for request in vllm.requests}) == 3


def test_no_salt_is_sent_where_none_is_given(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    engine.pool(prompts(10), PARAMETERS)
    engine.close()
    assert "cache_salt" not in vllm.requests[0]


def test_an_empty_batch_is_refused(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    with pytest.raises(InvalidInput, match="at least one"):
        engine.pool([], PARAMETERS)
    engine.close()


def test_a_refused_prompt_fails_alone(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    pooled = engine.pool(prompts(10, FakeVllm.REFUSE, 20), PARAMETERS)
    engine.close()
    assert isinstance(pooled.errors[1], InvalidInput) and list(pooled.errors) == [1]
    assert pooled.rows[:, 0].tolist() == [10.0, 0.0, 20.0]


def test_rows_of_another_width_are_never_used(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    with pytest.raises(ModelUnavailable, match="pooling"):
        engine.pool(prompts(FakeVllm.NARROW), PARAMETERS)
    engine.close()


def test_an_engine_that_dies_fails_its_batch_and_is_replaced(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    with pytest.raises(ModelUnavailable, match="died under a batch of 3"):
        engine.pool(prompts(10, FakeVllm.KILL, 20), PARAMETERS)
    assert pool_when_back(engine).rows[0, 0] == 7.0
    assert [one.ended for one in vllm.engines] == [True, False]
    engine.close()
    assert not vllm.running


def test_a_silent_engine_counts_as_dead(vllm: FakeVllm) -> None:
    engine = engine_of(vllm, pass_seconds=0.05)
    with pytest.raises(ModelUnavailable, match="died"):
        engine.pool(prompts(10, FakeVllm.HANG), PARAMETERS)
    assert pool_when_back(engine).rows[0, 0] == 7.0
    engine.close()
    assert not vllm.running


def test_while_a_start_fails_every_call_is_a_typed_error_and_tries_again(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    vllm.starts_to_fail = 2
    with pytest.raises(ModelUnavailable, match="died"):
        engine.pool(prompts(FakeVllm.KILL), PARAMETERS)
    with pytest.raises(ModelUnavailable, match="no memory is left"):
        pool_when_back(engine)
    with pytest.raises(ModelUnavailable, match="no memory is left"):
        pool_when_back(engine)
    assert pool_when_back(engine).rows[0, 0] == 7.0
    engine.close()


def test_a_first_start_that_fails_is_an_error_that_says_why(vllm: FakeVllm) -> None:
    vllm.starts_to_fail = 1
    threads = threading.active_count()
    with pytest.raises(ModelUnavailable, match=r"no memory is left.*cache_tokens"):
        engine_of(vllm)
    assert threading.active_count() == threads


def test_a_nan_stays_with_its_own_text_and_leaves_a_clean_cache(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    # A block a prompt: those behind the poison go several times round the cache.
    pooled = engine.pool(prompts(10, FakeVllm.POISON, *range(20, 40)), PARAMETERS)
    again = engine.pool(prompts(50), PARAMETERS)
    engine.close()
    assert np.flatnonzero(np.isnan(pooled.rows).any(axis=1)).tolist() == [1]
    assert not pooled.errors and again.rows[0, 0] == 50.0


def test_an_engine_whose_cache_cannot_be_cleared_is_replaced(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    with pytest.raises(ModelUnavailable, match="died"):
        engine.pool(prompts(10, FakeVllm.UNCLEAN), PARAMETERS)
    assert pool_when_back(engine).rows[0, 0] == 7.0
    engine.close()


def test_closing_ends_the_engine_and_every_thread(vllm: FakeVllm) -> None:
    threads = threading.active_count()
    engine = engine_of(vllm)
    engine.close()
    engine.close()
    assert not vllm.running and threading.active_count() == threads
    with pytest.raises(ModelUnavailable, match="closed"):
        engine.pool(prompts(10), PARAMETERS)


def test_closing_waits_for_a_start_under_way_and_ends_it(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    with pytest.raises(ModelUnavailable):
        engine.pool(prompts(FakeVllm.KILL), PARAMETERS)
    engine.close()
    assert not vllm.running


def test_many_threads_pool_at_once(vllm: FakeVllm) -> None:
    engine = engine_of(vllm)
    answers: dict[int, float] = {}

    def ask(token: int) -> Callable[[], None]:
        return lambda: answers.update({token: float(engine.pool(prompts(token), PARAMETERS).rows[0, 0])})

    threads = [threading.Thread(target=ask(token)) for token in range(10, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.close()
    assert answers == {token: float(token) for token in range(10, 30)}
