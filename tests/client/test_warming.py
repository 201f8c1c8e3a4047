"""When a turn is embedded ahead of its read: tested on a clock that jumps."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from precall.client.encoder_supply import EncoderSupply
from precall.client.warming import Warming
from tests.client.settable import TermEncoder


class Supply:
    """An encoder that is there already."""

    def __init__(self) -> None:
        self.encoder = self.fitting = TermEncoder()


def test_a_partial_waits_for_a_pause_and_a_finished_turn_does_not(
    run_on_virtual_clock: Callable[..., Any],
) -> None:
    async def scenario() -> None:
        supply = Supply()
        warming = Warming(cast(EncoderSupply, supply), pause_seconds=0.15)
        for text in ("so", "so about", "so about that"):
            warming.observed(text, partial=True)
            await asyncio.sleep(0.1)
        assert supply.encoder.warmed == []
        await asyncio.sleep(0.1)
        assert supply.encoder.warmed == ["so about that"]
        warming.observed("so about that trip", partial=True)
        warming.observed("so about that trip to Pune", partial=False)
        assert supply.encoder.warmed[1:] == ["so about that trip to Pune"]
        await asyncio.sleep(1.0)
        assert len(supply.encoder.warmed) == 2

    run_on_virtual_clock(scenario())


def test_nothing_is_embedded_after_the_end_nor_for_silence(run_on_virtual_clock: Callable[..., Any]) -> None:
    async def scenario() -> None:
        supply = Supply()
        warming = Warming(cast(EncoderSupply, supply), pause_seconds=0.15)
        warming.observed("so about", partial=True)
        warming.close()
        warming.observed("  ", partial=True)
        await asyncio.sleep(1.0)
        assert supply.encoder.warmed == []

    run_on_virtual_clock(scenario())
