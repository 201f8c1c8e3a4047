"""Reads in scripts that the default model does not know."""

import pytest

from precall.client import MemoryDraft
from tests.e2e.conftest import Served, conversation, scope

FACTS = [
    "दाना को मूंगफली से एलर्जी है।",
    "دانا تسافر إلى بونة في الربيع مع أختها.",
    "Dana ko subah ki flight pasand hai",
    "黛娜每个星期二都弹钢琴。",
    "Dana's dog is called Biscuit.",
]
QUERIES = {
    "मूंगफलियों से किसे एलर्जी है?": FACTS[0],
    "متى السفر إلى بونه؟": FACTS[1],
    "usko kaunsi flight pasand hai": FACTS[2],
    "谁弹钢琴": FACTS[3],
    "कुत्ते Biscuit का नाम": FACTS[4],
}


@pytest.mark.parametrize("query", QUERIES)
async def test_a_query_finds_its_words_and_a_read_is_what_the_server_says(server: Served, query: str) -> None:
    async with server.client() as client:
        await client.memories.write(scope(), [MemoryDraft(text=text) for text in FACTS])
        async with client.session(scope(), conversation()) as session:
            assert await session.ready(60)
            read = await session.read(query)
            truth = await session.search(query)
            assert (read.source, read.decision) == ("cache", "complete")
            assert read.items[0].memory.text == QUERIES[query]
            assert [item.memory.id for item in read.items] == [item.memory.id for item in truth.items]
            for ours, theirs in zip(read.items, truth.items, strict=True):
                assert ours.score.total == pytest.approx(theirs.score.total, abs=1e-5)
