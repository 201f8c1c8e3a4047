"""Every metric of the server, in one place. No label holds a tenant, a user, or what a caller can make up."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from precall.engine.batching.work import Batch, WorkClass
from precall.engine.encoding.light_encoder import LightEncoder
from precall.engine.retrieval.canary import RecallCheck
from precall.server.call import Stage

BUCKETS: Final = tuple(
    milliseconds / 1000
    for milliseconds in (
        0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 20, 30, 50, 100, 250, 500, 1000, 2500
    )
)  # fmt: skip
"""Dense around 15 ms, which is what the product promises."""

LONG_BUCKETS: Final = (*BUCKETS, 5.0, 10.0, 30.0)
"""For waits that a lease may stretch."""


class ServerMetrics:
    """The metrics of one server, in a registry of its own so that two servers fit into one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        # Calls
        self._rpc = Histogram(
            "precall_rpc_seconds", "Time in the server, by method and status code.", ["method", "code"],
            buckets=LONG_BUCKETS, registry=registry,
        )  # fmt: skip
        self._stage = Histogram(
            "precall_stage_seconds", "Where a call's time went, as in the replies' timings.", ["stage"],
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip

        # Batching
        self._queue_time = Histogram(
            "precall_queue_seconds", "Time a text waited for the device.", ["work_class"],
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self._device_time = Histogram(
            "precall_device_seconds", "Time of one forward pass.", ["work_class", "outcome"],
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self._batch_tokens = Counter(
            "precall_batch_tokens_total", "Tokens computed; `padded` counts the padding as well.", ["kind"],
            registry=registry,
        )  # fmt: skip
        self._batch_texts = Counter(
            "precall_batch_texts_total", "Texts computed, each once however many asked.", ["work_class"],
            registry=registry,
        )  # fmt: skip
        self._dropped = Counter(
            "precall_dropped_texts_total", "Texts that never reached the device, by why.", ["reason"],
            registry=registry,
        )  # fmt: skip

        # Anticipation
        self._pushed = Counter(
            "precall_pushed_items_total", "Items pushed into caches, by predictor.", ["predictor"],
            registry=registry,
        )  # fmt: skip
        self._left = Counter(
            "precall_left_items_total",
            "Pushed items that left a cache for want of room or with their session: used before, or unused.",
            ["predictor", "fate"], registry=registry,
        )  # fmt: skip
        self._prediction = Histogram(
            "precall_prediction_seconds", "From an occasion to a predictor's pushes queued.", ["predictor"],
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self._failed_predictions = Counter(
            "precall_failed_predictions_total", "Guesses that could not be made, by predictor and reason.",
            ["predictor", "reason"], registry=registry,
        )  # fmt: skip
        self._invalidated = Counter(
            "precall_invalidated_items_total", "Items that caches were told to drop.", registry=registry
        )
        self._confirmation = Histogram(
            "precall_confirmation_seconds", "How long a write waited until no cache could serve the old.",
            buckets=LONG_BUCKETS, registry=registry,
        )  # fmt: skip
        self.sessions = Gauge("precall_sessions", "Sessions open now.", registry=registry)
        self.streams = Gauge("precall_streams", "Watch streams open now.", registry=registry)

        # What agents felt, as their clients report it
        self.read_time = Histogram(
            "precall_read_seconds", "An agent's read, its own embedding included, as the client measured it.",
            ["source", "status", "decision"], buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self.read_encode_time = Histogram(
            "precall_read_encode_seconds", "Embedding a read's query in the agent's process.",
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self.staleness = Histogram(
            "precall_read_staleness_seconds", "Age of what a cache knew when it answered.",
            buckets=LONG_BUCKETS, registry=registry,
        )  # fmt: skip
        self.used_items = Counter(
            "precall_used_items_total", "Pushed items that a read served, by predictor.", ["predictor"],
            registry=registry,
        )  # fmt: skip
        self.checked_reads = Counter(
            "precall_checked_reads_total", "Sampled reads compared with the server's answer.", ["outcome"],
            registry=registry,
        )  # fmt: skip
        self._observed = Counter(
            "precall_observed_turns_total", "What was said, by who embedded it as a question.",
            ["embedded_by"], registry=registry,
        )  # fmt: skip
        self.lead = Histogram(
            "precall_prefetch_lead_seconds", "From an event in the client to its push stored there.",
            buckets=LONG_BUCKETS, registry=registry,
        )  # fmt: skip

        # Searching
        self._checked_results = Counter(
            "precall_checked_results_total", "Exact results of sampled searches; `found` is recall.",
            ["outcome"], registry=registry,
        )  # fmt: skip

        # What clients embed with
        self._light_encoder = Gauge(
            "precall_light_encoder_agreement",
            "Of the encoder made for clients of a large model, on texts that it was not fitted on.",
            ["model", "measure"], registry=registry,
        )  # fmt: skip

        # The process
        self.open_tenants = Gauge("precall_open_tenants", "Tenants whose file is open.", registry=registry)

        # What is in memory
        self.resident_partitions = Gauge(
            "precall_resident_partitions", "Rungs whose memories are in memory.", registry=registry
        )
        self.resident_bytes = Gauge(
            "precall_resident_bytes", "Estimated size of the rungs in memory.", registry=registry
        )
        self.memory_budget = Gauge(
            "precall_memory_budget_bytes", "What the rungs in memory may take together.", registry=registry
        )
        self._partition_load = Histogram(
            "precall_partition_load_seconds", "From wanting a cold rung to having it in memory.",
            buckets=LONG_BUCKETS, registry=registry,
        )  # fmt: skip
        self._evicted = Counter(
            "precall_evicted_partitions_total", "Rungs that left memory to make room.", registry=registry
        )
        self._oversized = Counter(
            "precall_oversized_partitions_total", "Rungs read that alone take more than the budget.",
            registry=registry,
        )  # fmt: skip
        self.ready = Gauge("precall_ready", "1 while the last forward pass worked.", registry=registry)
        self.server = Info("precall_server", "What runs here.", registry=registry)

    def observe_rpc(self, method: str, code: grpc.StatusCode, seconds: float) -> None:
        self._rpc.labels(method, code.name).observe(seconds)

    def observe_stages(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            self._stage.labels(stage.name).observe(stage.seconds)

    def light_encoder(self, encoder: LightEncoder) -> None:
        for measure, value in asdict(encoder.agreement).items():
            self._light_encoder.labels(encoder.model_fingerprint, measure).set(value)

    # BatchObserver, from any thread

    def waited(self, work_class: WorkClass, seconds: float) -> None:
        self._queue_time.labels(work_class.value).observe(seconds)

    def finished(self, batch: Batch, device_seconds: float, *, failed: bool) -> None:
        work_class = batch.work_class.value
        self._device_time.labels(work_class, "failed" if failed else "ok").observe(device_seconds)
        self._batch_tokens.labels("real").inc(batch.tokens)
        self._batch_tokens.labels("padded").inc(batch.padded_tokens)
        self._batch_texts.labels(work_class).inc(len(batch.works))

    def expired(self, count: int) -> None:
        self._dropped.labels("expired").inc(count)

    def cancelled(self, count: int) -> None:
        self._dropped.labels("cancelled").inc(count)

    def refused(self, count: int) -> None:
        self._dropped.labels("refused").inc(count)

    # RecallObserver, from the event loop

    def recall_checked(self, check: RecallCheck) -> None:
        self._checked_results.labels("found").inc(check.found)
        self._checked_results.labels("missed").inc(check.missed)

    # ResidencyObserver, from the event loop

    def partition_loaded(self, seconds: float) -> None:
        self._partition_load.observe(seconds)

    def partition_evicted(self) -> None:
        self._evicted.inc()

    def partition_oversized(self) -> None:
        self._oversized.inc()

    # AnticipationObserver, from the event loop

    def pushed(self, predictor: str, items: int) -> None:
        self._pushed.labels(predictor).inc(items)

    def dropped(self, predictor: str, items: int, *, used: bool) -> None:
        self._left.labels(predictor, "used" if used else "unused").inc(items)

    def observed(self, *, by_client: bool) -> None:
        """An observation was taken; ``by_client``: its vector came with it."""
        self._observed.labels("client" if by_client else "server").inc()

    def predicted(self, predictor: str, seconds: float) -> None:
        self._prediction.labels(predictor).observe(seconds)

    def prediction_failed(self, predictor: str, reason: str) -> None:
        self._failed_predictions.labels(predictor, reason).inc()

    def invalidated(self, items: int) -> None:
        self._invalidated.inc(items)

    def confirmed(self, seconds: float) -> None:
        self._confirmation.observe(seconds)
