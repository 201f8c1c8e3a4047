"""The shared rung: what is held out, what is left unsaid, and that it is written once."""

import json
import shutil

import numpy as np
import pytest

from precall.bench import shared_rung as module
from precall.bench.coverage_corpus import Exchange, Utterance
from precall.bench.shared_rung import SharedRung, filled_server_folder, memory_id
from precall.engine.engine import Engine, EngineSettings
from precall.engine.memory.memory import NewMemory
from precall.engine.memory.registry import TENANTS_FOLDER
from tests.fakes.encoder import FakeEncoder


def exchange(reads: int, *, kind: str = "locomo", unsaid: range = range(0), gold: int = 0) -> Exchange:
    said = tuple(Utterance(f"{kind} {number}", group=kind, gold=(gold,)) for number in range(reads))
    return Exchange((Utterance("before"), *said), fitted=False, unsaid=unsaid)


def test_ends_of_dialogues_are_left_unsaid_as_far_as_the_rung_stays_large():
    first, second, third = (
        exchange(2, unsaid=range(start, stop)) for start, stop in ((90, 100), (80, 100), (40, 75))
    )
    assert module._last_of_dialogues([third, second, first], most_rows=20) == [first, second]
    assert module._last_of_dialogues([third, second, first], most_rows=9) == []


def test_questions_whose_answer_is_in_no_memory_are_left_out():
    kept = module._answerable(exchange(3, gold=7), frozenset({8}))
    assert kept.reads == 3
    assert module._answerable(exchange(3, gold=8), frozenset({8})).reads == 0


@pytest.mark.parametrize(("most", "expected"), [(None, 20), (50, 20), (7, 7), (1, 1)])
def test_so_many_reads_are_chosen_as_are_asked_for(most, expected):
    chosen = module._evenly([exchange(5) for _ in range(4)], most)
    assert sum(each.reads for each in chosen) == expected
    assert all(each.reads for each in chosen)


def test_every_kind_is_asked_from_the_first_minute_to_the_last():
    few = [exchange(1, kind="few") for _ in range(2)]
    many = [exchange(1, kind="many") for _ in range(6)]
    mixed = [module._kind(each) for each in module._mixed([few, many])]
    assert mixed.count("few") == 2
    assert "few" in mixed[:4] and "few" in mixed[4:]


class Vectors:
    """Stands for a `VectorCache`: row ``n`` is the unit vector of axis ``n``. Counts what is asked of it."""

    def __init__(self) -> None:
        self.encoder = FakeEncoder()
        self.asked = 0

    def vectors(self, texts, role):
        self.asked += 1
        return np.eye(len(texts), self.encoder.card.dimension, dtype=np.float32)


async def test_the_rung_is_written_once_and_copied_from_then_on(tmp_path):
    memories = tuple(
        NewMemory(
            id=memory_id(row),
            rung=module._RUNG,
            text=f"text {row}",
            event_time=module.SAID,
            said_time=module.SAID,
        )
        for row in (0, 2)
    )
    rung = SharedRung(memories, (), frozenset({1}), ("text 0", "text 1", "text 2"))
    vectors = Vectors()
    kept = tmp_path / "kept"
    for name in ("first", "second"):
        await filled_server_folder(rung, vectors, kept, tmp_path / name)
        engine = Engine(EngineSettings(tmp_path / name / "data" / TENANTS_FOLDER), FakeEncoder())
        await engine.start()
        try:
            tenant = await engine.tenant(module.TENANT)
            (partition,) = await tenant.partitions(module._RUNG)
            written = {row: partition.indexed(memory_id(row)) for row in range(3)}
            assert written[1] is None
            assert [int(np.argmax(written[row].vector)) for row in (0, 2)] == [0, 2], (
                "each has its own vector"
            )
        finally:
            await engine.close()
    assert vectors.asked == 1, "the second run has what the first one wrote"
    (place,) = kept.iterdir()
    assert json.loads((place / "whole.json").read_text()) == {"memories": 2}
    (place / "whole.json").unlink()  # an earlier run was cut short
    shutil.rmtree(tmp_path / "second")
    await filled_server_folder(rung, vectors, kept, tmp_path / "second")
    assert vectors.asked == 2
