"""What can happen in a life, and how often."""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

Method = TypeVar("Method", bound=Callable[..., None])


def action(weight: int, **strategies: st.SearchStrategy[Any]) -> Callable[[Method], Method]:
    """Marks a method as something that happens, ``weight`` times as often as what has weight 1.

    ``strategies``: its arguments by name. Hypothesis's own rules leave many out of each life ("swarm
    testing"), which takes thousands of lives to make up for.
    """

    def mark(method: Method) -> Method:
        method.weight, method.strategies = weight, strategies  # type: ignore[attr-defined]
        return method

    return mark


def actions_of(life: object) -> list[str]:
    """Names of a life's actions, each as often as it weighs."""
    kind = type(life)
    return [name for name in sorted(dir(kind)) for _ in range(getattr(getattr(kind, name), "weight", 0))]


def arguments(method: Callable[..., None], data: st.DataObject) -> dict[str, Any]:
    """What an action is called with."""
    strategies: dict[str, st.SearchStrategy[Any]] = method.strategies  # type: ignore[attr-defined]
    return {name: data.draw(strategy, label=name) for name, strategy in strategies.items()}
