"""How alike two models' answers are: of whom it is asked, and what does not count."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TextRole
from precall.engine.engine import Engine
from precall.engine.memory.ladder import Ladder
from precall.engine.tenant import Tenant
from tests.engine.conftest import new, write
from tests.engine.two_models import NEW, OLD, HeldEncoder, TwoModels, assert_vectors_of, idle, start
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import ACME, DANA

LADDER = Ladder(("customer", "user"))
DAY = 86_400.0


@pytest.fixture
async def models(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TwoModels]:
    models = TwoModels(tmp_path, clock)
    yield models
    await models.close()


async def filled(engine: Engine, count: int) -> Tenant:
    """Every second memory on the rung below the others'."""
    tenant = await engine.create_tenant("t", LADDER)
    await write(tenant, *(new(f"m{n}", f"pune tea {n}", (ACME, DANA)[n % 2]) for n in range(count)))
    return tenant


class Stranger(HeldEncoder):
    """Knows nothing of what the old model knows, and reads a text's last word alone."""

    def _vector(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        return super()._vector(token_ids[-1:] + 1)


async def test_two_models_that_find_the_same_agree_wholly(models: TwoModels) -> None:
    models.new = HeldEncoder(OLD)
    models.new._card = replace(OLD, revision="2")
    engine = await models.start()
    tenant = await filled(engine, 120)
    migration = await start(engine, tenant, models.new)
    assert (migration.overlap_at_10, migration.compared_queries) == (1.0, 100)
    assert not (await tenant.migrating.report()).too_few_to_compare


async def test_two_models_that_agree_in_part(models: TwoModels) -> None:
    engine = await models.start()
    tenant = await filled(engine, 150)
    migration = await start(engine, tenant, models.new)
    assert migration.compared_queries == 100
    assert migration.overlap_at_10 is not None and 0 < migration.overlap_at_10 < 1
    await tenant.migrating.roll_back()
    await idle(tenant)
    again = await start(engine, tenant, models.new)
    assert again.overlap_at_10 == migration.overlap_at_10, "the same memories are asked the same questions"


@pytest.mark.parametrize("shared", ["topic{}", ""], ids=["keywords", "importance-and-age"])
async def test_what_both_have_in_common_whatever_the_model_does_not_count(
    models: TwoModels, shared: str
) -> None:
    """Ten memories share a word, or none does; nine are new and important, all others old and unimportant."""
    models.new = Stranger(NEW)
    engine = await models.start()
    tenant = await engine.create_tenant("t", LADDER)
    memories = [
        new(
            f"m{n}",
            f"{shared.format(n % 12)} word{n}",
            at=0.0 if n < 9 else -900 * DAY,
            importance=float(n < 9),
        )
        for n in range(120)
    ]
    await write(tenant, *memories)
    migration = await start(engine, tenant, models.new)
    assert migration.overlap_at_10 is not None
    assert migration.overlap_at_10 < 0.3, "each memory itself, and by chance a tenth of the others"


@pytest.mark.parametrize(("memories", "asked"), [(0, 0), (50, 0), (51, 25)])
async def test_questions_are_asked_where_there_is_a_choice(
    models: TwoModels, memories: int, asked: int
) -> None:
    """With 51, those on the lower rung see all of them, and those on the upper one 26."""
    engine = await models.start()
    if memories:
        tenant = await filled(engine, memories)
    else:
        tenant = await engine.create_tenant("t", LADDER)
    migration = await start(engine, tenant, models.new)
    assert migration.compared_queries == asked
    assert (migration.overlap_at_10 is None) == (asked == 0)
    assert (await tenant.migrating.report()).too_few_to_compare == (asked == 0)
    await tenant.migrating.switch()
    assert not (await tenant.migrating.report()).too_few_to_compare, "that is no question any more"
    assert_vectors_of(tenant.store.load_rung(DANA), models.new)


async def test_questions_that_memories_answer_are_what_is_asked(models: TwoModels) -> None:
    engine = await models.start()
    tenant = await engine.create_tenant("t", LADDER)
    await write(tenant, *(new(f"m{n}", f"the answer {n}", questions=("Which zeppelin?",)) for n in range(51)))
    await start(engine, tenant, models.new)
    for encoder in (models.new, models.old):
        assert tokens(encoder, "Which zeppelin?") in encoder.embedded


def tokens(encoder: FakeEncoder, text: str) -> bytes:
    return encoder.tokenize(text, TextRole.QUERY, truncate=True).token_ids.tobytes()
