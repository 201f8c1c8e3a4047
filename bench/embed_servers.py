"""Batch throughput through two servers of the same model: ours over gRPC, infinity-emb over HTTP."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
import numpy as np
from numpy.typing import NDArray

from precall.bench.embed_caller import embed_request, vectors_of
from precall.bench.embed_peers import InfinityServer
from precall.bench.embed_report import Finding, Target
from precall.bench.embed_throughput import LEAST_COSINE, Embed, least_cosine
from precall.bench.stopwatch import measure_in_turns
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole
from precall.proto.embedding_pb2_grpc import EmbeddingServiceStub

PART: Final = "server"
TO_INFINITY: Final = Target(1.5, at_least=True)
TEXTS_A_REQUEST: Final = 32
CONCURRENCY: Final = 4


def measure_servers(
    target: str, api_key: str, infinity: InfinityServer, corpora: dict[str, Sequence[str]], *, rounds: int
) -> list[Finding]:
    """Texts in requests of ``TEXTS_A_REQUEST``, ``CONCURRENCY`` under way, the servers taking turns."""
    findings: list[Finding] = []
    with grpc.insecure_channel(target) as channel, ThreadPoolExecutor(CONCURRENCY) as threads:
        contenders: dict[str, Embed] = {
            "ours": _in_requests(threads, _over_grpc(channel, api_key)),
            "infinity": _in_requests(threads, infinity.embed),
        }
        for case, corpus in corpora.items():
            findings += _compare(case, corpus, contenders, rounds)
    return findings


def _compare(case: str, corpus: Sequence[str], contenders: dict[str, Embed], rounds: int) -> list[Finding]:
    ours, theirs = contenders["ours"], contenders["infinity"]
    cosine = least_cosine(ours(corpus), theirs(corpus))
    seconds = measure_in_turns(
        {"ours": lambda _: ours(corpus), "infinity": lambda _: theirs(corpus)}, rounds=rounds, warm_up=1
    )
    rates = {name: len(corpus) / float(np.median(times)) for name, times in seconds.items()}
    rate = f"{rates['infinity']:.4g} texts/s"
    note = f"{rate}; {TEXTS_A_REQUEST} texts a request, {CONCURRENCY} requests under way"
    ratio = rates["ours"] / rates["infinity"]
    return [
        Finding(PART, case, "rate", rates["ours"], "texts/s", "infinity-emb", ratio, TO_INFINITY, note),
        Finding(PART, case, "cosine", cosine, "least", target=LEAST_COSINE, note="to infinity's vectors"),
    ]


def _in_requests(threads: ThreadPoolExecutor, embed: Embed) -> Embed:
    def all_of(texts: Sequence[str]) -> NDArray[np.float32]:
        parts = [texts[begin : begin + TEXTS_A_REQUEST] for begin in range(0, len(texts), TEXTS_A_REQUEST)]
        return np.concatenate(list(threads.map(embed, parts)))

    return all_of


def _over_grpc(channel: grpc.Channel, api_key: str) -> Embed:
    stub = EmbeddingServiceStub(channel)
    metadata = (("authorization", f"Bearer {api_key}"),)

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        request = embed_request(texts, TextRole.DOCUMENT, WorkClass.INGEST)
        return vectors_of(stub.Embed(request, metadata=metadata))

    return embed
