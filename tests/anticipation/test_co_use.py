"""What conversations of a tenant teach the next one, and what they must not tell."""

from collections.abc import Sequence

from precall.engine.anticipation.co_use import CoUse, CoUseSettings
from precall.engine.anticipation.cue import Cue
from precall.engine.memory.ladder import Rung
from tests.anticipation.situations import situation, the_only
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.world import World


def filled() -> World:
    world = World(FakeClock())
    for tenant in ("t", "u"):
        for rung, letter in ((ACME, "a"), (DANA, "d"), (EVE, "e")):
            world.write(tenant, [world.memory(f"{letter}{n}", rung, f"word{n} {letter}") for n in range(6)])
    return world


def talk(
    predictor: CoUse, world: World, answers: Sequence[Sequence[str]], *, rung: Rung = DANA, tenant: str = "t"
) -> None:
    """A conversation in which each answer named what it was built on."""
    for end in range(1, len(answers) + 1):
        predictor.learn(situation(world, cue=Cue.USED, rung=rung, tenant=tenant, answers=answers[:end]))
    predictor.check_integrity()


async def followers(
    predictor: CoUse, world: World, used: Sequence[str], *, rung: Rung = DANA, tenant: str = "t"
) -> list[str]:
    proposals = await predictor.propose(
        situation(world, cue=Cue.USED, rung=rung, tenant=tenant, answers=[used])
    )
    return list(the_only(proposals).memory_ids) if proposals else []


async def test_what_followed_comes_in_the_order_of_its_likelihood() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    for after in (["d1"], ["d1"], ["d2"]):
        talk(predictor, world, [["d0"], after])
    assert await followers(predictor, world, ["d0"]) == ["d1", "d2"]
    assert not await followers(predictor, world, ["d2"]), "what came before does not follow"
    assert not await followers(predictor, world, ["d5"])


async def test_what_one_answer_used_together_leads_to_each_other() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    talk(predictor, world, [["d0", "d1"], ["d2"]])
    assert await followers(predictor, world, ["d1"]) == ["d2", "d0"]


async def test_what_was_found_is_asked_about_beside_what_was_used() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    talk(predictor, world, [["d0"], ["d1"]])
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["d0", "d4"])))
    assert list(proposal.memory_ids) == ["d1"] and proposal.query is None


async def test_users_teach_each_other_of_shared_memories_alone() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    talk(predictor, world, [["a0", "d0"], ["a1", "d1"]], rung=DANA)
    assert await followers(predictor, world, ["a0"], rung=EVE) == ["a1"]
    assert not await followers(predictor, world, ["d0"], rung=EVE)
    assert set(await followers(predictor, world, ["a0"], rung=DANA)) == {"a1", "d1", "d0"}
    situations = situation(world, cue=Cue.USED, rung=EVE, answers=[["a0"]])
    places = [(partition.rung, "a0") for partition in situations.partitions]
    assert set(predictor._tenants["t"].expected(places, now=0)) == {"a1"}, "not filtered out late: never seen"


async def test_what_an_agent_names_and_may_not_see_is_not_learned() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    talk(predictor, world, [["d0", "e0", "unknown"], ["d1", "e1"]], rung=DANA)
    assert not any(predictor.knows("t", each) for each in ("e0", "e1", "unknown"))
    assert await followers(predictor, world, ["d0"]) == ["d1"]


async def test_tenants_share_nothing() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    talk(predictor, world, [["d0"], ["d1"]], tenant="u")
    assert not await followers(predictor, world, ["d0"], tenant="t")
    talk(predictor, world, [["d0"], ["d2"]], tenant="t")
    predictor.forget("t", ["d0"])
    assert await followers(predictor, world, ["d0"], tenant="u") == ["d1"]
    predictor.forget_tenant("u")
    assert not predictor.knows("u", "d1") and predictor.knows("t", "d2")


async def test_nothing_of_a_forgotten_memory_stays() -> None:
    world = filled()
    predictor = CoUse(world.clock)
    for _ in range(3):
        talk(predictor, world, [["d0"], ["d1"], ["d0", "d2"]])
    predictor.forget("t", ["d1", "d0"])
    predictor.check_integrity()
    assert not predictor.knows("t", "d0") and not predictor.knows("t", "d1") and predictor.knows("t", "d2")
    predictor.forget("t", ["d2"])
    assert "t" not in predictor._tenants, "an empty book is none"


async def test_the_tenant_that_knows_most_gives_up_what_it_used_longest_ago() -> None:
    world = filled()
    predictor = CoUse(world.clock, CoUseSettings(tenant_memories=50, memories=8))
    talk(predictor, world, [["a0"], ["a1"]], rung=ACME, tenant="u")
    talk(predictor, world, [[f"d{n}"] for n in range(6)])
    talk(predictor, world, [[f"a{n}"] for n in range(2, 6)], rung=ACME)
    assert predictor.knows("u", "a0"), "the small one keeps what it has"
    assert not predictor.knows("t", "d0") and predictor.knows("t", "a5")
