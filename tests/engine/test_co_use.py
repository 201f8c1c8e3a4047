"""What was learned of a memory goes with it, by whatever way it goes."""

import pytest

from precall.engine.anticipation.co_use import CoUse
from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.engine import Engine
from precall.engine.memory.memory import Source
from precall.engine.tenant import Tenant
from tests.engine.conftest import new, write
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, moment


@pytest.fixture
def learned(engine: Engine) -> CoUse:
    (learner,) = engine._predictors.learners
    assert isinstance(learner, CoUse)
    return learner


async def use(engine: Engine, tenant: Tenant, *memory_ids: str) -> None:
    """A conversation of Dana's in which each answer was built on one of these."""
    model = tenant.model()
    stream = engine.anticipator.open_stream(tenant.id, "one", model.card)
    engine.anticipator.open_session(
        tenant_id=tenant.id, stream_id="one", session_id="s", conversation_id="", rung=DANA,
        ladder=tenant.ladder, model=model, partitions=await tenant.partitions(DANA), version=tenant.version,
    )  # fmt: skip
    for sequence, memory_id in enumerate(memory_ids, start=1):
        turn = Turn(TurnRole.ASSISTANT, "an answer", (memory_id,))
        engine.anticipator.observe(tenant.id, "s", sequence, turn, partial=False)
    engine.anticipator.close_session(tenant.id, "s")
    engine.anticipator.close_stream(stream, "it is over")


async def test_deleted_forgotten_superseded_expired_and_dropped_memories_are_forgotten(
    engine: Engine, tenant: Tenant, learned: CoUse, clock: FakeClock
) -> None:
    await write(
        tenant,
        new("deleted", "pune"),
        new("superseded", "train", key="k"),
        new("sourced", "tea", source=Source(uri="a page")),
        new("expired", "doctor", expires_at=moment(clock.wall() + 10)),
        new("shared", "office", ACME),
        new("stays", "rent", ACME),
    )
    everything = ("deleted", "superseded", "sourced", "expired", "shared", "stays")
    await use(engine, tenant, *everything, *everything)
    assert all(learned.knows("t", each) for each in everything)

    await tenant.delete(["deleted"], visible_from=None, request_id=None)
    assert not learned.knows("t", "deleted")
    await write(tenant, new("successor", "bus", key="k", at=1))
    assert not learned.knows("t", "superseded")
    await tenant.forget_source(Source(uri="a page"), visible_from=DANA, request_id=None)
    assert not learned.knows("t", "sourced")
    clock.advance(20)
    await tenant.destroy_expired()
    assert not learned.knows("t", "expired")
    assert learned.knows("t", "shared") and learned.knows("t", "stays")
    await tenant.forget_scope(ACME, request_id=None)
    assert not learned.knows("t", "shared")
    learned.check_integrity()


async def test_a_tenant_that_is_deleted_leaves_nothing(
    engine: Engine, tenant: Tenant, learned: CoUse
) -> None:
    await write(tenant, new("a", "pune"), new("b", "train"))
    await use(engine, tenant, "a", "b")
    assert learned.knows("t", "a")
    await engine.delete_tenant("t")
    assert not learned.knows("t", "a") and not learned.knows("t", "b")
