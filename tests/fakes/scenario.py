"""Tests that live in a world of their own, on a clock that jumps."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tests.fakes.world import World

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
Scenario: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]


def scenario_in(make_world: Callable[[], World]) -> Callable[[Scenario], Callable[[Run], None]]:
    """A decorator: the test gets a world that was made on the virtual clock, whose books must then agree."""

    def scenario(test: Scenario) -> Callable[[Run], None]:
        def runs(run_on_virtual_clock: Run) -> None:
            async def within() -> None:
                world = make_world()
                await test(world)
                world.anticipator.check_integrity()

            run_on_virtual_clock(within())

        runs.__name__ = test.__name__
        runs.__doc__ = test.__doc__
        return runs

    return scenario
