"""The measurement of many tenants: small, but whole."""

import math
from pathlib import Path

from precall.bench.residency import ResidencyRun, make_tenants, measure_process, measurements_of

RUN = ResidencyRun(tenants=20, memories=3, large=2, large_memories=20, reads=40, budget_mb=1, open_files=2)


async def test_copied_tenants_are_tenants_and_every_figure_is_there(tmp_path: Path) -> None:
    await make_tenants(tmp_path / "tenants", RUN)
    figures = await measure_process(tmp_path / "tenants", RUN)
    assert len(figures.cold_seconds) == len(figures.cold_processor_seconds) == RUN.large
    assert figures.loads >= 2 * (RUN.tenants + RUN.large), "a rung and the one above it"
    assert figures.most_open_files <= RUN.open_files + 10, "as many more as read at once"
    assert 0 < figures.resident_bytes <= 1024 * 1024
    rows = measurements_of(RUN, figures, 2.0, 1.0)
    assert all(math.isfinite(row.value) for row in rows)
    assert [row.ratio for row in rows if row.ratio is not None] == [0.5]
