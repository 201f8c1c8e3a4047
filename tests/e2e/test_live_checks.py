"""A sampled read is compared with a real server, whose own model embeds the question again."""

import asyncio
from pathlib import Path

from precall.client import MemoryDraft
from tests.e2e.conftest import conversation, scope, served

FACTS = ["Dana is allergic to peanuts.", "Dana's dog is called Biscuit.", "Dana flies to Pune in March."]


async def test_what_a_real_cache_is_sure_of_is_what_the_server_says(tmp_path: Path) -> None:
    async with (
        served(tmp_path / "data", complete_below=0) as server,
        server.client(live_check_share=1.0) as client,
    ):
        await client.memories.write(scope(), [MemoryDraft(text=text) for text in FACTS])
        async with client.session(scope(), conversation()) as session:
            assert await session.ready(60)
            session.observe("user", FACTS[1])
            async with asyncio.timeout(60):
                while (await session.read(FACTS[1])).decision != "sure":  # noqa: ASYNC110 - the push is on its way
                    await asyncio.sleep(0.02)
                while session.state.checked_reads == 0:
                    await session.read(FACTS[1])
                    await asyncio.sleep(0.02)
            assert session.state.wrong_reads == 0 and not session.state.strict
