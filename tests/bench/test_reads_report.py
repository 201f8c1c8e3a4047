"""What a run of reads comes to: hits, wrong serves, and who brought what."""

from dataclasses import replace

import pytest

from precall.bench.reads_report import Fill, ReadRecord, ReadsSetting, report

SETTING = ReadsSetting("shared", typed=False, rtt_ms=40.0, speed=1.0, memories=12, max_items=10)
SERVER = [f"m{place}" for place in range(10)]
RIGHT = ReadRecord(
    conversation="0",
    category="locomo",
    elapsed_ms=4.0,
    encode_ms=2.0,
    source="cache",
    status="hit",
    decision="sure",
    read_ids=SERVER,
    server_ids=SERVER,
    evidence=[],
    predictors=["recent_turns"] * 10,
)


def lacking(*lost: str) -> list[str]:
    kept = [memory_id for memory_id in SERVER if memory_id not in lost]
    return [*kept, *(f"x{number}" for number in range(len(lost)))]


@pytest.mark.parametrize(
    ("lost", "evidence", "wrong", "lost_top"),
    [
        ("m2", [], True, True),
        ("m3", [], False, False),
        ("m3", ["m3"], True, False),
        ("m2", ["m5"], False, True),
        ("m2", ["elsewhere"], False, True),
    ],
    ids=["third", "fourth", "evidence", "third, not evidence", "evidence that the server lost too"],
)
def test_a_serve_is_wrong_by_its_evidence_or_else_by_the_servers_first_three(lost, evidence, wrong, lost_top):
    read = replace(RIGHT, read_ids=lacking(lost), evidence=evidence)
    assert (read.wrong, read.lost_top) == (wrong, lost_top)


def test_only_an_answer_of_the_cache_in_full_standing_is_a_hit_or_wrong():
    lost = replace(RIGHT, read_ids=lacking("m0"))
    assert RIGHT.hit and not RIGHT.wrong
    assert lost.hit and lost.wrong
    for other in (
        replace(lost, source="server"),
        replace(lost, source="both"),
        replace(lost, status="degraded"),
    ):
        assert not other.hit and not other.wrong and not other.lost_top


def test_a_report_counts_over_all_reads_by_kind_and_by_predictor():
    neighbour = replace(RIGHT, category="turn-new", predictors=["neighbours"] + ["recent_turns"] * 9)
    asked = replace(RIGHT, source="server", elapsed_ms=90.0, predictors=[""] * 10)
    wrong = replace(RIGHT, read_ids=lacking("m0"))
    result = report(
        [RIGHT, neighbour, asked, wrong],
        [Fill("0", held_items=10, complete_rungs=(), pushes=3, opening_ms=900.0, leads_ms=[70.0])],
        SETTING,
        pushed_items={"recent_turns": 30, "call_start": 5},
        used_items={"recent_turns": 9},
        server_ms=[80.0, 80.0],
    )
    assert (result.reads, result.hit_rate, result.wrong_serve_rate) == (4, 0.75, 0.25)
    assert result.kinds["turn-new"].hit_rate == 1.0 and result.kinds["locomo"].reads == 3
    shares = {
        name: (share.pushed_items, share.used_items, share.hits) for name, share in result.predictors.items()
    }
    assert shares == {"call_start": (5, 0, 0), "neighbours": (0, 0, 1), "recent_turns": (30, 9, 2)}
    assert result.used_items == 11, "ten of the server's, and one that is not; of one conversation"


def test_a_run_without_reads_has_no_report():
    with pytest.raises(ValueError, match="no question"):
        report([], [], SETTING, pushed_items={}, used_items={}, server_ms=[])
