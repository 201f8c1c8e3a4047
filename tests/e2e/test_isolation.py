"""No session, whatever it does, holds or reads what another tenant, user or customer said."""

from pathlib import Path

import pytest

from precall.client import MemoryDraft
from tests.e2e.conftest import Served, conversation, scope, served

OWNERS = [(tenant, user) for tenant in ("acme", "rival") for user in ("dana", "omar")]


@pytest.mark.parametrize("complete_below", [0, 2_000], ids=["predicted", "whole"])
async def test_caches_and_searches_hold_their_own_alone(tmp_path: Path, complete_below: int) -> None:
    async with served(tmp_path / "data", complete_below=complete_below) as server:
        secrets = {owner: f"The secret of {owner[0]} {owner[1]} is plum." for owner in OWNERS}
        for (tenant, user), text in secrets.items():
            async with server.client(tenant) as client:
                await client.memories.write(scope(user), [MemoryDraft(text=text, key="secret")])
        for tenant, user in OWNERS:
            async with (
                server.client(tenant) as client,
                client.session(scope(user), conversation()) as session,
            ):
                assert await session.ready(60)
                for query in ("the secret", *secrets.values()):
                    session.observe("user", query)
                    read, found = await session.read(query), await session.search(query)
                    seen = {item.memory.text for item in (*read.items, *found.items)}
                    assert seen <= {secrets[tenant, user]}
                assert session.state.items <= 1


async def test_another_owners_ids_are_not_found_and_survive(server: Served) -> None:
    async with server.client() as client:
        mine = (await client.memories.write(scope("dana"), [MemoryDraft(text="plum", key="secret")]))[0]
        for other in (server.client("acme"), server.client("rival")):
            async with other as stranger:
                reach = scope("omar")
                assert (await stranger.memories.get(reach, [mine.id])).missing_ids == (mine.id,)
                assert (await stranger.memories.delete(reach, [mine.id])).missing_ids == (mine.id,)
                assert await stranger.memories.history(reach, "secret") == ()
                assert (await stranger.memories.list(reach)).memories == ()
                await stranger.forget_scope(reach)
        assert (await client.memories.get(scope("dana"), [mine.id])).missing_ids == ()


async def test_one_process_with_many_sessions_keeps_them_apart(server: Served) -> None:
    async with server.client() as client:
        for user in ("dana", "omar", "li"):
            await client.memories.write(scope(user), [MemoryDraft(text=f"{user} likes plum")])
        async with (
            client.session(scope("dana"), conversation()) as dana,
            client.session(scope("omar"), conversation()) as omar,
            client.session(scope("li"), conversation()) as li,
        ):
            for session, name in ((dana, "dana"), (omar, "omar"), (li, "li")):
                assert await session.ready(60)
                read = await session.read("who likes plum")
                assert [item.memory.text for item in read.items] == [f"{name} likes plum"]
            await dana.remember("dana likes quince")
            texts = {item.memory.text for item in (await omar.read("quince")).items}
            assert texts == {"omar likes plum"}
