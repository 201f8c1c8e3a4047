import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.bench.azure_trace import (
    TraceArrival,
    TraceFormatError,
    cut_slice,
    load_trace,
    paced,
    scaled_tokens,
)

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(
        HEAD
        + "2023-11-16 18:15:50.0000000,396,109\n"
        + "2023-11-16 18:15:46.5000000,374,44\n"  # out of order
        + "2023-11-16 18:15:46.7500001,0,55\n"
    )
    return path


def test_arrivals_are_in_order_of_time_from_zero_on(trace_file: Path) -> None:
    assert load_trace(trace_file) == (
        TraceArrival(0.0, 374),
        TraceArrival(0.25, 1),
        TraceArrival(3.5, 396),
    )


@pytest.mark.parametrize(
    "row", ["yesterday,1,2", "2023-11-16 18:15:50.0000000,many,2", "2023-11-16 18:15:50"]
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEAD + row + "\n")
    with pytest.raises(TraceFormatError, match="line 2"):
        load_trace(path)


def test_a_trace_without_arrivals_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEAD)
    with pytest.raises(TraceFormatError, match="no arrival"):
        load_trace(path)


def test_a_slice_begins_at_zero(trace_file: Path) -> None:
    assert cut_slice(load_trace(trace_file), 1, 2) == (TraceArrival(0.0, 1), TraceArrival(3.25, 396))


@given(
    st.lists(st.floats(0.001, 100.0), min_size=1, max_size=50),
    st.floats(0.1, 1_000.0),
)
def test_pacing_keeps_the_shape_and_sets_the_mean_rate(gaps: list[float], rate: float) -> None:
    times = [sum(gaps[:number]) for number in range(len(gaps) + 1)]
    slow = [TraceArrival(time, number + 1) for number, time in enumerate(times)]
    quick = paced(slow, rate)
    assert [arrival.tokens for arrival in quick] == [arrival.tokens for arrival in slow]
    assert (len(quick) - 1) / quick[-1].seconds == pytest.approx(rate)
    factor = quick[-1].seconds / slow[-1].seconds
    for before, after in zip(slow, quick, strict=True):
        assert after.seconds == pytest.approx(before.seconds * factor)


@pytest.mark.parametrize(("tokens", "scaled"), [(1_020, 64), (1, 3), (4_142, 256), (10**6, 256)])
def test_lengths_are_divided_and_kept_to_what_the_model_takes(tokens: int, scaled: int) -> None:
    assert scaled_tokens(TraceArrival(0.0, tokens), 16.0, 256) == scaled


def test_the_real_trace_is_read(shared_data: Path) -> None:
    trace = load_trace(shared_data / "traces" / "AzureLLMInferenceTrace_conv.csv")
    assert len(trace) == 19_366
    assert all(before.seconds <= after.seconds for before, after in itertools.pairwise(trace))
