"""Many conversations at once, on a small scale: a real server and two agent processes."""

import asyncio
import json
import math
from dataclasses import replace

import pytest

from precall.bench.sessions import SessionsFailed, _Agent, measure
from precall.bench.sessions_report import Percentiles, SessionsRun, reported
from precall.bench.sessions_worker import Answer, Job


def test_percentiles_of_nothing_are_no_numbers():
    nothing = Percentiles.of([])
    assert nothing.count == 0 and math.isnan(nothing.p95)
    assert Percentiles.of([1.0, 2.0, 3.0]).p50 == 2.0


def test_a_report_adds_up_what_the_processes_tell(tmp_path):
    run = SessionsRun(tmp_path, sessions=10)
    one = Answer([1.0], [5.0], [30.0], 2, {"cache, hit": 2}, {"UNAVAILABLE": 1}, 1_000, 3_000)
    two = replace(one, sources={"server, hit": 1}, errors={"UNAVAILABLE": 2})
    report = reported(run, [one, two], 50_000, 8.0)
    assert (report.turns, report.reads.count, report.server_bytes, report.client_bytes) == (4, 2, 5_000, 400)
    assert report.sources == {"cache, hit": 2, "server, hit": 1}
    assert report.errors == {"UNAVAILABLE": 3}
    assert report.server_seconds == 2.0


def test_users_are_of_one_customer_each(tmp_path):
    run = SessionsRun(tmp_path, users=6, customers=4)
    assert run.scope(2) == run.scope(8) == {"customer": "customer 2", "user": "user 2"}


async def test_an_agent_process_that_ends_says_why(tmp_path):
    job = Job("127.0.0.1:1", "no key", [], [], 1.0, 1.0, 1, 0)
    agent = await _Agent.start(tmp_path, 0, job)
    with pytest.raises(SessionsFailed, match="api_key is empty"):
        await agent.opened()
    await agent.end()


async def test_sessions_speak_read_and_write(tmp_path):
    turns = [{"speaker": "Ana", "dia_id": f"D1:{n}", "text": f"word{n} and word{n + 1}"} for n in range(1, 9)]
    conversation = {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "conversation": {},
        "session_1": turns,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "qa": [],
    }
    path = tmp_path / "1.json"
    path.write_text(json.dumps(conversation))
    run = SessionsRun(
        path,
        sessions=4,
        processes=2,
        seconds=1.5,
        turn_seconds=0.5,
        users=2,
        customers=1,
        memories=3,
        write_every=2,
    )
    async with asyncio.timeout(120):
        report = await measure(run)
    assert report.errors == {}
    assert report.turns >= 4 and report.reads.count == report.turns
    assert report.writes.count > 0 and report.server_bytes != 0
    assert report.lead.count > 0, "a turn causes a push where no rung is held whole"
