"""A random life of two tenants, told to precall and to the model alike."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Rung
from tests.fakes.clock import FakeClock
from tests.properties.actions import actions_of, arguments
from tests.properties.draws import RUNGS, TENANTS
from tests.properties.model import Model, Statement
from tests.properties.model_change import ModelChange
from tests.properties.ranking import Recall, check_answer, scored
from tests.properties.service import Destroyed, Found, Service, Wrote
from tests.properties.vectors import MODELS

Result = TypeVar("Result")
Request = Callable[[], Coroutine[Any, Any, Wrote | Destroyed]]
NewFolder = Callable[[], Path]


@dataclass
class Told:
    """What a tenant was told, and what it answered. ``again``: requests with the answer that each had."""

    model: Model
    serial: int = 0
    again: list[tuple[Request, Wrote | Destroyed]] = field(default_factory=list)


class Life(RuleBasedStateMachine):
    """What all rules share. A subclass says which way it goes."""

    def __init__(self, new_folder: NewFolder, recall: Recall | None = None) -> None:
        super().__init__()
        self.new_folder = new_folder
        self.clock = FakeClock()
        self.runner = asyncio.Runner()
        self.models: tuple[str, ...] = MODELS
        """What the server runs; the first one is what new tenants get."""
        self.told = {tenant: Told(self.new_model()) for tenant in TENANTS}
        self.moments = [self.clock.wall() - 1]
        """When something changed, and before."""
        self.touched = TENANTS[0]
        self.looks = 0
        self.recall = recall
        """Where searches may miss a result, how many they miss; None: where none may."""
        self.service: Service

    def begin(self, service: Service) -> None:
        """Called once, by the subclass's initial rule."""
        self.service = service
        self.do(service.start(self.new_folder(), self.models))
        for tenant in TENANTS:
            self.do(service.create(tenant))

    def teardown(self) -> None:
        try:
            if hasattr(self, "service"):
                self.do(self.service.stop())
        finally:
            self.runner.close()

    def do(self, asked: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(asked)

    @rule(data=st.data())
    def live(self, data: st.DataObject) -> None:
        """Something happens."""
        name = data.draw(st.sampled_from(actions_of(self)), label="action")
        method = getattr(self, name)
        method(**arguments(method, data))

    def new_model(self) -> Model:
        """Of a tenant that is created now."""
        return Model(change=ModelChange(self.models[0]))

    def model(self, tenant: str) -> Model:
        return self.told[tenant].model

    def request_id(self, tenant: str) -> str:
        self.told[tenant].serial += 1
        return str(uuid.UUID(int=self.told[tenant].serial))

    def touch(self, tenant: str) -> None:
        """Something may have changed, now."""
        self.touched = tenant
        self.moments.append(self.clock.wall())

    def remember(self, tenant: str, request: Request, answer: Wrote | Destroyed) -> None:
        self.told[tenant].again.append((request, answer))

    def check_search(
        self,
        tenant: str,
        reader: Rung,
        text: str,
        found: Found,
        *,
        limit: int,
        asked: MemoryFilter | None = None,
        as_of: float | None = None,
        by: Collection[str] = (),
    ) -> None:
        """The answer is the best there is for this reader, and nothing else.

        ``by``: whose vectors may have been compared; empty: of the model that serves.
        """
        model, now = self.model(tenant), self.clock.wall()
        corpus = model.current(reader) if as_of is None else model.current_at(reader, as_of, now)
        moment = now if as_of is None else as_of
        assert found.fingerprint in (by or (model.change.serving,))
        best = scored(model, corpus, text, now=moment, by=found.fingerprint)
        allowed = [each for each in corpus if each.may_be_served(moment) and each.passes(asked)]
        what = (tenant, reader.values, text, limit, asked, as_of, found.fingerprint)
        self.check_words(found, allowed, what)
        assert found.visible == sum(each.passes(asked) for each in corpus), what
        assert found.version == model.version, what
        ranked = [best[each.id] for each in allowed]
        if self.recall is None or as_of is not None:
            check_answer(found.hits, ranked, limit, what)
        else:
            self.recall.note(found.hits, ranked, limit)

    def check_words(self, found: Found, allowed: list[Statement], what: object) -> None:
        """Whatever is found may be found, and says what was said."""
        words = {each.id: each.said.text for each in allowed}
        assert set(found.texts.items()) <= set(words.items()), (what, found.texts, words)

    @invariant()
    def lists_say_what_stands(self) -> None:
        if not hasattr(self, "service"):
            return
        tenant, now = self.touched, self.clock.wall()
        model = self.model(tenant)
        said = {each.id: each.said for each in model.statements}
        for rung in RUNGS:
            page = self.do(self.service.page(tenant, rung, size=1_000, include_history=True))
            assert page.version == model.version
            assert [(each.id, each.current) for each in page.memories] == model.listed(
                rung, now, include_history=True
            )
            for each in page.memories:
                assert (each.rung, each.text, each.key) == (rung, said[each.id].text, said[each.id].key)

    @invariant()
    def somebody_finds_what_stands(self) -> None:
        """Another reader each time, in turn of both tenants."""
        if not hasattr(self, "service"):
            return
        self.looks += 1
        reader = RUNGS[self.looks % len(RUNGS)]
        tenant = self.touched if self.looks % 3 else TENANTS[self.looks % 2]
        self.look(tenant, reader, "pune tea rent")

    def look(self, tenant: str, reader: Rung, text: str) -> None:
        found = self.do(self.service.search(tenant, reader, text, limit=50))
        self.check_search(tenant, reader, text, found, limit=50)
