"""One conversation from the agent's side: observe, read, remember, correct, forget."""

import asyncio
from pathlib import Path

from precall.client import Client, MemoryDraft
from tests.e2e.conftest import Served, conversation, scope, served

FACTS = [
    "Dana flies to Pune in March for her sister's wedding.",
    "Dana is allergic to peanuts.",
    "Dana's dog is called Biscuit.",
    "Dana prefers trains to planes for trips under four hours.",
    "Dana's daughter plays the piano on Tuesdays.",
]


async def test_a_read_is_answered_in_the_process_as_the_server_would(server: Served) -> None:
    async with server.client() as client:
        await client.memories.write(scope(), [MemoryDraft(text=text) for text in FACTS])
        async with client.session(scope(), conversation()) as session:
            assert await session.ready(60)
            assert session.state.complete_rungs == ("customer", "user")
            for query in ("when is the wedding trip to Pune", "what food must I avoid", "name of the dog"):
                session.observe("user", query)
                read = await session.read(query)
                truth = await session.search(query)
                assert (read.source, read.status, read.decision) == ("cache", "hit", "complete")
                assert [item.memory.id for item in read.items] == [item.memory.id for item in truth.items]
                for ours, theirs in zip(read.items, truth.items, strict=True):
                    assert abs(ours.score.total - theirs.score.total) < 1e-4
            assert "Biscuit" in read.items[0].memory.text
            assert read.items[0].memory.text in read.text.replace("&quot;", '"')


async def test_a_session_reads_its_own_writes_and_corrections(server: Served) -> None:
    async with server.client() as client, client.session(scope(), conversation()) as session:
        assert await session.ready(60)
        first = await session.remember("Dana's favourite fruit is mango.", key="fruit")
        read = await session.read("favourite fruit")
        assert [item.memory.id for item in read.items] == [first.id] and read.version >= first.version
        second = await session.remember("Dana's favourite fruit is papaya.", key="fruit")
        assert second.superseded_ids == (first.id,)
        read = await session.read("favourite fruit")
        assert [item.memory.id for item in read.items] == [second.id] and read.version >= second.version
        await session.forget(second.id)
        read = await session.read("favourite fruit")
        assert (read.status, read.items) == ("empty", ())
        assert await client.memories.history(scope(), "fruit") == ()


async def test_a_correction_reaches_another_agents_cache_before_it_is_acked(server: Served) -> None:
    async with server.client() as writer, server.client() as reader:
        old = (await writer.memories.write(scope(), [MemoryDraft(text=FACTS[0], key="trip")]))[0]
        async with reader.session(scope(), conversation()) as session:
            assert await session.ready(60)
            assert [item.memory.id for item in (await session.read("Pune")).items] == [old.id]
            new = (
                await writer.memories.write(
                    scope(), [MemoryDraft(text="The trip to Pune is off.", key="trip")]
                )
            )[0]
            assert old.id not in [item.memory.id for item in (await session.read("Pune")).items]
            await writer.memories.delete(scope(), [new.id])
            assert (await session.read("Pune")).items == ()


async def test_what_is_too_much_to_hold_is_predicted_from_what_is_said(tmp_path: Path) -> None:
    """With whole rungs switched off, the turns themselves fetch what the read then finds."""
    async with served(tmp_path / "data", complete_below=0) as server, server.client() as client:
        await client.memories.write(scope(), [MemoryDraft(text=text) for text in FACTS])
        async with client.session(scope(), conversation()) as session:
            assert await session.ready(60)
            session.observe("user", FACTS[2])
            read = await session.read(FACTS[2])
            while read.decision != "sure":  # until the push that the turn caused has arrived
                read = await session.read(FACTS[2])
            assert read.source == "cache"
            assert read.items[0].memory.text == FACTS[2]
            assert read.items[0].predictor in ("call_start", "recent_turns"), "whichever was there first"
            assert session.state.last_lead_seconds is not None


async def test_a_rung_above_is_seen_and_a_rung_below_is_not(server: Served) -> None:
    async with server.client() as client:
        await client.memories.write(
            {"customer": "acme"}, [MemoryDraft(text="The office in Pune opens at nine.")]
        )
        await client.memories.write(scope(), [MemoryDraft(text=FACTS[0])])
        async with client.session(scope(), conversation()) as user:
            assert await user.ready(60)
            assert {item.rung for item in (await user.read("Pune")).items} == {"customer", "user"}
        async with client.session({"customer": "acme"}, conversation()) as customer:
            assert await customer.ready(60)
            assert {item.rung for item in (await customer.read("Pune")).items} == {"customer"}


async def test_the_client_without_await_reads_the_same(server: Served) -> None:
    def talk() -> tuple[str, str]:
        with (
            Client(server.target, api_key=server.keys["acme"]) as client,
            client.session(scope(), conversation()) as session,
        ):
            assert session.ready(60)
            session.remember(FACTS[1])
            session.observe("user", "what food must I avoid")
            read = session.read("what food must I avoid")
            return read.status, read.items[0].memory.text

    assert await asyncio.to_thread(talk) == ("hit", FACTS[1])
