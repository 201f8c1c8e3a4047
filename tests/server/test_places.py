"""Places for calls: what is kept for conversations, and for other tenants."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.errors import Overloaded
from precall.server.places import Places

BULK, QUICK = "EmbeddingService/Embed", "RetrievalService/Search"


@pytest.mark.parametrize(("method", "own"), [(BULK, 4), (QUICK, 5)])
def test_one_tenant_takes_half_of_the_places_and_leaves_the_rest_to_others(method: str, own: int) -> None:
    places = Places(10)
    with contextlib.ExitStack() as stack:
        for _ in range(own):
            stack.enter_context(places.taken(method, "a"))
        with pytest.raises(Overloaded, match="of yours") as caught, places.taken(method, "a"):
            pass
        assert caught.value.retry_after_seconds > 0
        for _ in range(4):
            stack.enter_context(places.taken(method, "b"))
        stack.enter_context(places.taken(QUICK, None))
    with places.taken(method, "a"):
        pass


def test_a_tenant_full_of_bulk_work_still_reads() -> None:
    places = Places(10)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(places.taken(BULK, "a"))
        stack.enter_context(places.taken(QUICK, "a"))


@given(
    st.integers(1, 12),
    st.lists(
        st.tuples(st.sampled_from([BULK, QUICK]), st.sampled_from(["a", "b", "c", None]), st.booleans())
    ),
)
def test_counts_never_exceed_their_limits_and_come_back_to_nothing(
    limit: int, calls: list[tuple[str, str | None, bool]]
) -> None:
    places = Places(limit)
    inside: list[contextlib.ExitStack] = []
    for method, tenant, leaves in calls:
        if leaves and inside:
            inside.pop(0).close()
        with contextlib.suppress(Overloaded), contextlib.ExitStack() as stack:
            stack.enter_context(places.taken(method, tenant))
            inside.append(stack.pop_all())
        assert places.running == len(inside) <= limit and places.running_bulk <= places.bulk_limit
    for stack in inside:
        stack.close()
    assert places.running == places.running_bulk == 0
    assert not places._running and not places._running_bulk
