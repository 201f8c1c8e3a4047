"""Turns: who comes next, what a flood can take, and nobody forgotten."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precall.engine.batching.class_turns import Asker, ClassTurns
from precall.engine.batching.work import WorkClass
from precall.engine.errors import Draining

SEARCH, PLAIN = WorkClass.CONVERSATION, WorkClass.INGEST
WEIGHTS = {SEARCH: 16.0, PLAIN: 1.0}


class Worker:
    """Holds each turn until ``steps`` has one for it; ``order`` says who had one, ``most`` how many at a time
    did.
    """

    def __init__(self, places: int = 1) -> None:
        self.turns = ClassTurns(WEIGHTS, places=places)
        self.order: list[str] = []
        self.steps = asyncio.Semaphore(0)
        self.held = 0
        self.most = 0

    def ask(
        self, name: str, tenant: str, work_class: WorkClass = PLAIN, *, amounts: Sequence[float] = (1.0,)
    ) -> asyncio.Task[None]:
        async def take() -> None:
            for amount in amounts:
                async with self.turns.turn(Asker(tenant, work_class), amount):
                    self.order.append(name)
                    self.held += 1
                    self.most = max(self.most, self.held)
                    try:
                        await self.steps.acquire()
                    finally:
                        self.held -= 1

        return asyncio.create_task(take())


async def begun() -> None:
    """Until every task made before stands in its line."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def run_out(worker: Worker, tasks: Sequence[asyncio.Task[None]]) -> None:
    for _ in range(1_000):
        worker.steps.release()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks)
    worker.turns.check_integrity()


async def test_a_tenants_flood_keeps_another_waiting_for_one_turn() -> None:
    worker = Worker()
    flood = [worker.ask("a", "A") for _ in range(10)]
    await begun()
    other = worker.ask("b", "B")
    await begun()
    await run_out(worker, [*flood, other])
    assert worker.order[:2] == ["a", "b"]


async def test_a_search_comes_before_a_flood_of_plain_reranking_even_of_its_own_tenant() -> None:
    worker = Worker()
    flood = [worker.ask("plain", "A", amounts=[1.0] * 5) for _ in range(3)]
    await begun()
    search = worker.ask("search", "A", SEARCH, amounts=[1.0] * 4)
    await begun()
    await run_out(worker, [*flood, search])
    assert worker.order.index("search") == 1 and worker.order[:9].count("search") == 4


async def test_turns_are_shared_by_their_amounts() -> None:
    worker = Worker()
    tasks = [worker.ask("big", "A", amounts=[4.0] * 3), worker.ask("small", "B", amounts=[1.0] * 12)]
    await begun()
    await run_out(worker, tasks)
    assert worker.order[:12].count("small") >= 8


async def test_all_places_are_given_and_no_more() -> None:
    worker = Worker(places=3)
    tasks = [worker.ask(str(number), "ABC"[number % 3]) for number in range(9)]
    await begun()
    assert (worker.held, worker.order) == (3, ["0", "1", "2"])
    await run_out(worker, tasks)
    assert (worker.held, worker.most, len(worker.order)) == (0, 3, 9)


async def test_at_several_places_too_whoever_has_had_least_goes_next() -> None:
    worker = Worker(places=2)
    flood = [worker.ask("a", "A") for _ in range(6)]
    await begun()
    other = [worker.ask("b", "B") for _ in range(2)]
    await begun()
    await run_out(worker, [*flood, *other])
    assert worker.order[2] == "b" and worker.order[:5].count("b") == 2


async def test_whoever_goes_while_waiting_is_passed_over() -> None:
    worker = Worker()
    first, second, third = (worker.ask(name, "A") for name in ("1", "2", "3"))
    await begun()
    second.cancel()
    await run_out(worker, [first, third])
    assert worker.order == ["1", "3"] and second.cancelled()


async def test_whoever_goes_in_the_moment_of_its_turn_hands_it_on() -> None:
    worker = Worker()
    async with worker.turns.turn(Asker("A", PLAIN), 1.0):
        second, third = worker.ask("2", "A"), worker.ask("3", "A")
        await begun()
    second.cancel()  # it was handed the turn by the end of the block, and is not yet awake
    await run_out(worker, [third])
    assert worker.order == ["3"]


async def test_a_refusal_reaches_all_who_wait_and_all_who_come() -> None:
    worker = Worker()
    holding, waiting = worker.ask("1", "A"), worker.ask("2", "B", SEARCH)
    await begun()
    worker.turns.refuse(lambda: Draining("going"))
    with pytest.raises(Draining):
        await waiting
    with pytest.raises(Draining):
        await worker.ask("3", "C")
    await run_out(worker, [holding])
    assert worker.order == ["1"]


ASKERS = st.tuples(st.sampled_from("ABC"), st.sampled_from([SEARCH, PLAIN]))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), ASKERS),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("step"), st.integers(0, 3)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS, st.integers(1, 3))
def test_whatever_happens_everybody_who_stays_has_a_turn(
    actions: list[tuple[str, object]], places: int
) -> None:
    async def play() -> None:
        worker = Worker(places)
        tasks: list[asyncio.Task[None]] = []
        for action, detail in actions:
            if action == "ask":
                tenant, work_class = detail  # type: ignore[misc]
                tasks.append(worker.ask(str(len(tasks)), tenant, work_class))
            elif action == "cancel" and tasks:
                tasks[int(detail) % len(tasks)].cancel()  # type: ignore[call-overload]
            elif action == "step":
                worker.steps.release()
                for _ in range(int(detail)):  # type: ignore[call-overload]
                    await asyncio.sleep(0)
            worker.turns.check_integrity()
        for _ in range(100):
            worker.steps.release()
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks, return_exceptions=True)
        worker.turns.check_integrity()
        assert worker.held == 0 and worker.most <= places
        stayed = {str(number) for number, task in enumerate(tasks) if not task.cancelled()}
        assert stayed <= set(worker.order)

    asyncio.run(play())
