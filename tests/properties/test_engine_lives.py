"""Lives on the engine, in this process."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from precall.engine.index.partition import PartitionSettings
from tests.properties import draws
from tests.properties.conftest import lives
from tests.properties.engine_path import EnginePath, Tightness
from tests.properties.life import NewFolder
from tests.properties.looks import Looks
from tests.properties.migrations import Migrations
from tests.properties.ranking import Recall


class EngineLife(Migrations, Looks):
    def __init__(self, new_folder: NewFolder, recall: Recall | None = None) -> None:
        super().__init__(new_folder, recall)
        self.backups = {}

    @initialize(
        budget=st.sampled_from((1, 30_000, 10**9)),
        exact_below=st.sampled_from((2, 5, 10**6)),
        seed=st.integers(0, 10**6),
        travelled=st.integers(0, 3),
    )
    def start(self, budget: int, exact_below: int, seed: int, travelled: int) -> None:
        """``exact_below``: from so many memories on a rung its searches choose by codes. ``travelled``: steps
        that one tenant has taken to the next model.
        """
        listed = self.recall is not None
        listed_from = exact_below + 2 if listed else PartitionSettings().listed_from
        settings = PartitionSettings(exact_below=exact_below, listed_from=listed_from)
        self.path = EnginePath(self.clock, Tightness(budget, partitions=settings, listed=listed))
        self.begin(self.path)
        self.settle(seed)
        self.travel(draws.TENANTS[0], travelled)

    def teardown(self) -> None:
        super().teardown()
        if self.recall is not None:
            self.recall.listed += self.path.listed_searches


def test_the_engine_is_its_model(new_folder: NewFolder) -> None:
    run_state_machine_as_test(lambda: EngineLife(new_folder), settings=lives(20, 25))


def test_lists_find_the_best_and_nothing_else(new_folder: NewFolder) -> None:
    recall = Recall()
    run_state_machine_as_test(lambda: EngineLife(new_folder, recall), settings=lives(5, 20))
    assert recall.listed and recall.best
    assert recall.share >= 0.99
