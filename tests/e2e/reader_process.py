"""An agent in a process of its own: says ``ready``, then answers each line, a query, with a line of JSON."""

import asyncio
import json
import sys

from precall.client import AsyncClient


async def main(target: str, key: str, customer: str, user: str, conversation_id: str) -> None:
    scope = {"customer": customer, "user": user}
    async with AsyncClient(target, api_key=key) as client, client.session(scope, conversation_id) as session:
        if not await session.ready(60):
            raise SystemExit("the session was not ready in a minute")
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            read = await session.read(line.strip())
            answer = {
                "status": read.status,
                "source": str(read.source),
                "texts": [i.memory.text for i in read.items],
            }
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
