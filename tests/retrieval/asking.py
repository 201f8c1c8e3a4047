"""A request to a `RerankQueue` as some tenant's, for tests to which it does not matter whose it is."""

from collections.abc import Sequence
from typing import Any

from precall.engine.batching.work import WorkClass
from precall.engine.retrieval.reranking import Reranking, RerankQueue


async def rerank(
    queue: RerankQueue,
    query: str,
    documents: Sequence[str],
    *,
    tenant: str = "acme",
    work_class: WorkClass = WorkClass.INGEST,
    **fields: Any,
) -> Reranking:
    return await queue.rerank(query, documents, tenant=tenant, work_class=work_class, **fields)
