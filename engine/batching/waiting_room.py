"""How much waits, and of whom: what decides whether more is taken in."""

from collections import Counter
from collections.abc import Iterable, Mapping

from precall.engine.batching.pace import Pace
from precall.engine.batching.work import WorkClass
from precall.engine.errors import InvalidInput, Overloaded


class WaitingRoom:
    """Amounts of one ``unit`` ("tokens"), by class and tenant. Each class has room of its own, and no tenant
    gets all of it: else whoever comes first with much keeps every other tenant out.

    Invariant: no count is negative, and none is kept of a tenant with nothing waiting.
    """

    def __init__(self, unit: str, *, limit: int, tenant_limit: int, assumed_pace: float) -> None:
        """``limit`` and ``tenant_limit`` are of one class; ``assumed_pace``: units a second, until
        ``observe`` has told.
        """
        self._unit = unit
        self._limit = limit
        self._tenant_limit = tenant_limit
        self._of_class = dict.fromkeys(WorkClass, 0)
        self._of_tenant: Counter[tuple[WorkClass, str]] = Counter()
        self._paces = {work_class: Pace(assumed_pace) for work_class in WorkClass}

    @property
    def waiting(self) -> int:
        return sum(self._of_class.values())

    def waiting_of(self, work_class: WorkClass) -> int:
        return self._of_class[work_class]

    def enter(self, work_class: WorkClass, tenant: str, amount: int) -> None:
        self._of_class[work_class] += amount
        self._of_tenant[work_class, tenant] += amount

    def leave(self, work_class: WorkClass, tenant: str, amount: int) -> None:
        self._of_class[work_class] -= amount
        self._of_tenant[work_class, tenant] -= amount
        if not self._of_tenant[work_class, tenant]:
            del self._of_tenant[work_class, tenant]

    def observe(self, work_class: WorkClass, amount: int, seconds: float) -> None:
        """So much was done in so long: what advice to come again is measured by."""
        self._paces[work_class].observe(amount, seconds)

    def require(self, work_class: WorkClass, asked: Mapping[str, int]) -> None:
        """Is there room for what is ``asked`` for each tenant, all together?

        Raises ``InvalidInput`` if a tenant can never have as much waiting, ``Overloaded`` if not now.
        """
        for tenant, amount in asked.items():
            if amount > self._tenant_limit:
                raise InvalidInput(
                    f"the request has {amount} {self._unit} and {self._tenant_limit} of one tenant may wait "
                    "at a time: split it into smaller ones",
                    metadata={self._unit: str(amount), "limit": str(self._tenant_limit)},
                )
            own = self._of_tenant.get((work_class, tenant), 0)
            if own + amount > self._tenant_limit:
                raise self._refusal(work_class, own, amount, self._tenant_limit, " of this tenant")
        waiting, in_all = self._of_class[work_class], sum(asked.values())
        if waiting + in_all > self._limit:
            raise self._refusal(work_class, waiting, in_all, self._limit, "")

    def check_integrity(self, waiting: Iterable[tuple[WorkClass, str, int]]) -> None:
        """Raise ``AssertionError`` unless the counts are those of ``waiting``: class, tenant and amount."""
        by_class = dict.fromkeys(WorkClass, 0)
        by_tenant: Counter[tuple[WorkClass, str]] = Counter()
        for work_class, tenant, amount in waiting:
            by_class[work_class] += amount
            by_tenant[work_class, tenant] += amount
        assert self._of_class == by_class
        assert dict(self._of_tenant) == dict(by_tenant)

    def _refusal(
        self, work_class: WorkClass, waiting: int, amount: int, limit: int, whose: str
    ) -> Overloaded:
        retry_after = self._paces[work_class].seconds_for(waiting + amount - limit)
        return Overloaded(
            f"{waiting} {self._unit}{whose} of class {work_class.value} are waiting and {limit} may: "
            f"send the request again in {retry_after:.1f} s",
            retry_after_seconds=retry_after,
            metadata={f"waiting_{self._unit}": str(waiting), "limit": str(limit)},
        )
