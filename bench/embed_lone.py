"""One text on an idle server: what the RPC, the gate and the queue add to the call of the model."""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from precall.bench.embed_caller import EmbedCaller
from precall.bench.embed_report import Finding, Target
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole

PART: Final = "lone query"
ADDED_MS: Final = Target(1.0, at_least=False)
_WARM_UP: Final = 20


async def measure_lone(
    encoder: Encoder, caller: EmbedCaller, questions: Sequence[str], *, rounds: int
) -> list[Finding]:
    """Each question directly and through the server, one after the other, whoever begins changing.

    ``encoder`` is of the server's own kind and threads, in this process, which has nothing else to do.
    """
    direct_ms: list[float] = []
    rpc_ms: list[float] = []
    for number in range(_WARM_UP + rounds):
        question = questions[number % len(questions)]
        if number % 2:
            rpc, direct = await _rpc(caller, question), _direct(encoder, question)
        else:
            direct, rpc = _direct(encoder, question), await _rpc(caller, question)
        if number >= _WARM_UP:
            direct_ms.append(direct)
            rpc_ms.append(rpc)
    added = float(np.median(rpc_ms) - np.median(direct_ms))
    paired = float(np.median(np.subtract(rpc_ms, direct_ms)))
    case = "questions"
    return [
        Finding(PART, case, "direct p50", float(np.median(direct_ms)), "ms", note="tokenised and encoded"),
        Finding(PART, case, "RPC p50", float(np.median(rpc_ms)), "ms"),
        Finding(
            PART, case, "added p50", added, "ms", target=ADDED_MS, note=f"median of the pairs {paired:.2f} ms"
        ),
        Finding(PART, case, "direct p95", float(np.percentile(direct_ms, 95)), "ms"),
        Finding(PART, case, "RPC p95", float(np.percentile(rpc_ms, 95)), "ms"),
    ]


def _direct(encoder: Encoder, question: str) -> float:
    begin = time.perf_counter()
    encoder.encode([encoder.tokenize(question, TextRole.QUERY, truncate=False)])
    return (time.perf_counter() - begin) * 1e3


async def _rpc(caller: EmbedCaller, question: str) -> float:
    begin = time.perf_counter()
    await caller.embed([question], TextRole.QUERY, WorkClass.CONVERSATION)
    return (time.perf_counter() - begin) * 1e3
