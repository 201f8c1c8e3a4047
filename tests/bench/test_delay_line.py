import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.bench.delay_line import DelayLine


async def test_rejects_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="delay_seconds"):
        DelayLine(-0.1, 10)
    with pytest.raises(ValueError, match="capacity_bytes"):
        DelayLine(0.1, 0)


def test_every_payload_takes_the_delay_and_many_are_under_way(run_on_virtual_clock):
    async def scenario():
        clock = asyncio.get_running_loop().time
        line: DelayLine[bytes] = DelayLine(0.020, capacity_bytes=1_000)
        got = []

        async def receive():
            for _ in range(3):
                payload = await line.get()
                got.append((payload, round(clock(), 6)))

        receiver = asyncio.create_task(receive())
        for payload in (b"a", b"b", b"c"):
            await line.put(payload)
            await asyncio.sleep(0.001)
        await receiver
        return got

    # Delayed one after the other they would arrive at 20, 40 and 60 ms.
    assert run_on_virtual_clock(scenario()) == [(b"a", 0.020), (b"b", 0.021), (b"c", 0.022)]


def test_put_waits_while_the_line_is_full(run_on_virtual_clock):
    async def scenario():
        clock = asyncio.get_running_loop().time
        line: DelayLine[bytes] = DelayLine(0.5, capacity_bytes=4)
        put_at = []

        async def send():
            for payload in (b"1234", b"5678"):
                await line.put(payload)
                put_at.append(round(clock(), 6))

        sender = asyncio.create_task(send())
        received = [await line.get(), await line.get()]
        await sender
        return put_at, received, round(clock(), 6)

    assert run_on_virtual_clock(scenario()) == ([0.0, 0.5], [b"1234", b"5678"], 1.0)


@given(
    payloads=st.lists(st.binary(max_size=6), min_size=1, max_size=20),
    capacity_bytes=st.integers(1, 8),
)
def test_order_is_kept_and_nothing_is_lost(payloads, capacity_bytes):
    async def scenario():
        line: DelayLine[bytes] = DelayLine(0.0, capacity_bytes)

        async def send():
            for payload in payloads:
                await line.put(payload)

        sender = asyncio.create_task(send())
        received = [await line.get() for _ in payloads]
        await sender
        assert received == payloads

    asyncio.run(scenario())
