"""The queue's policy, on a clock that the test turns."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precall.engine.batching.queue import ONE_WORKER, WorkQueue
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Batch, EmbeddingRequest, Ticket, TicketState, WorkClass
from precall.engine.encoding.encoder import TextRole, TokenizedText, TokenUsage
from precall.engine.errors import ConfigurationError, InvalidInput, Overloaded

CONVERSATION, PREFETCH, INGEST = WorkClass.CONVERSATION, WorkClass.PREFETCH, WorkClass.INGEST
SMALL = BatchingSettings(max_batch_tokens=100, max_batch_items=10, max_waiting_tokens=1_000, tenant_share=1.0)
TWO_WORKERS = ((CONVERSATION,), (PREFETCH, INGEST))
_numbers = itertools.count()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def request(
    tokens: int = 10,
    tenant: str = "acme",
    work_class: WorkClass = CONVERSATION,
    deadline: float | None = None,
    text: int | None = None,
    role: TextRole = TextRole.DOCUMENT,
) -> EmbeddingRequest:
    """Requests with equal ``text`` and ``tokens`` are the same text; by default each is another one."""
    token_ids = np.full(tokens, next(_numbers) + 10**6 if text is None else text, dtype=np.int64)
    return EmbeddingRequest(
        TokenizedText(token_ids, TokenUsage(tokens, tokens)), role, tenant, work_class, deadline
    )


def take(queue: WorkQueue) -> Batch:
    batch = queue.take().batch
    assert batch is not None
    queue.check_integrity()
    return batch


def tickets_of(batch: Batch) -> list[Ticket]:
    return [ticket for work in batch.works for ticket in work.tickets]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue:
    return WorkQueue(SMALL, clock)


def test_conversations_have_batches_of_their_own_size(clock: Clock) -> None:
    queue = WorkQueue(replace(SMALL, max_conversation_tokens=20), clock)
    for work_class, together in ((INGEST, 4), (PREFETCH, 4), (CONVERSATION, 2)):
        queue.admit([request(work_class=work_class) for _ in range(4)])
        batch = take(queue)
        assert (batch.work_class, len(batch.works)) == (work_class, together)
        queue.complete(batch, 0.01)


def test_a_lone_request_is_taken_at_once(queue: WorkQueue) -> None:
    (ticket,) = queue.admit([request()])
    assert queue.has_waiting
    batch = take(queue)
    assert tickets_of(batch) == [ticket]
    assert queue.take().batch is None
    assert queue.complete(batch, 0.01) == [[ticket]]
    assert ticket.state is TicketState.DONE
    assert queue.is_idle


def test_batches_keep_to_the_token_budget_and_the_item_limit(queue: WorkQueue) -> None:
    queue.admit([request(tokens=30) for _ in range(7)])
    assert [len(take(queue).works) for _ in range(3)] == [3, 3, 1]
    queue.admit([request(tokens=2) for _ in range(13)])
    assert [len(take(queue).works) for _ in range(2)] == [10, 3]


def test_a_text_over_the_batch_budget_goes_alone(queue: WorkQueue) -> None:
    queue.admit([request(tokens=150), request(tokens=5)])
    assert [work.tokens for work in take(queue).works] == [150]
    assert [work.tokens for work in take(queue).works] == [5]


def test_texts_of_like_length_go_together_and_the_oldest_goes_first(queue: WorkQueue) -> None:
    queue.admit([request(tokens=tokens) for tokens in (30, 3, 28, 4, 3)])
    assert sorted(work.tokens for work in take(queue).works) == [28, 30]
    assert sorted(work.tokens for work in take(queue).works) == [3, 3, 4]


def test_a_conversation_overtakes_what_was_waiting(queue: WorkQueue) -> None:
    queue.admit([request(tokens=50, work_class=INGEST) for _ in range(10)])
    take(queue)
    queue.admit([request(work_class=PREFETCH)])
    queue.admit([request(work_class=CONVERSATION)])
    assert [take(queue).work_class for _ in range(3)] == [CONVERSATION, PREFETCH, INGEST]


def test_shares_follow_the_weights_and_none_starves(queue: WorkQueue) -> None:
    weights = {CONVERSATION: 6.0, PREFETCH: 3.0, INGEST: 1.0}
    queue = WorkQueue(replace(SMALL, class_weights=weights, max_waiting_tokens=10**6), Clock())
    for work_class in WorkClass:
        queue.admit([request(tokens=50, work_class=work_class) for _ in range(200)])
    served = Counter(take(queue).work_class for _ in range(100))
    assert served[CONVERSATION] == pytest.approx(60, abs=2)
    assert served[PREFETCH] == pytest.approx(30, abs=2)
    assert served[INGEST] == pytest.approx(10, abs=2)


def test_idling_earns_a_class_no_credit(queue: WorkQueue) -> None:
    queue = WorkQueue(replace(SMALL, max_waiting_tokens=10**6), Clock())
    queue.admit([request(tokens=50, work_class=CONVERSATION) for _ in range(400)])
    for _ in range(100):
        take(queue)
    queue.admit([request(tokens=50, work_class=INGEST) for _ in range(100)])
    classes = [take(queue).work_class for _ in range(34)]
    assert classes.count(INGEST) <= 3


def test_tenants_share_a_class_whatever_the_size_of_their_backlog(queue: WorkQueue) -> None:
    queue.admit([request(tokens=20, tenant="big") for _ in range(40)])
    queue.admit([request(tokens=20, tenant="small") for _ in range(4)])
    tenants = [work.tenant for _ in range(2) for work in take(queue).works]
    assert tenants.count("small") == 4  # of the first ten served, though forty were there before


def test_a_tenant_of_long_texts_gets_no_more_tokens_than_one_of_short(queue: WorkQueue) -> None:
    queue = WorkQueue(replace(SMALL, max_waiting_tokens=10**6, minimum_fill=0.0), Clock())
    queue.admit([request(tokens=40, tenant="long") for _ in range(200)])
    queue.admit([request(tokens=10, tenant="short") for _ in range(800)])
    tokens: Counter[str] = Counter()
    for _ in range(50):
        for work in take(queue).works:
            tokens[work.tenant] += work.tokens
    assert tokens["long"] == pytest.approx(tokens["short"], rel=0.15)


def test_what_is_late_never_leaves_as_work(queue: WorkQueue, clock: Clock) -> None:
    late, early = queue.admit([request(deadline=101.0), request(deadline=103.0)])
    clock.now = 101.0
    turn = queue.take()
    assert turn.expired == (late,)
    assert late.state is TicketState.EXPIRED
    assert turn.batch is not None
    assert tickets_of(turn.batch) == [early]
    assert queue.counts.expired == 1


def test_a_deadline_that_passes_on_the_device_still_gets_its_answer(queue: WorkQueue, clock: Clock) -> None:
    (ticket,) = queue.admit([request(deadline=101.0)])
    batch = take(queue)
    clock.now = 200.0
    assert queue.expire() == ()
    assert queue.complete(batch, 1.0) == [[ticket]]


def test_what_is_cancelled_never_leaves_as_work(queue: WorkQueue) -> None:
    gone, stays = queue.admit([request(), request()])
    assert queue.cancel([gone]) == 1
    assert queue.cancel([gone]) == 0
    assert tickets_of(take(queue)) == [stays]
    assert queue.counts.cancelled == 1
    assert queue.waiting_tokens == 0


def test_cancelling_on_the_device_drops_the_answer(queue: WorkQueue) -> None:
    (ticket,) = queue.admit([request()])
    batch = take(queue)
    assert queue.cancel([ticket]) == 1
    assert queue.complete(batch, 0.1) == [[]]
    queue.check_integrity()
    assert queue.is_idle


def test_the_same_text_is_computed_once_for_all_who_ask(queue: WorkQueue) -> None:
    first, second, other_role = queue.admit(
        [request(text=1), request(text=1), request(text=1, role=TextRole.QUERY)]
    )
    batch = take(queue)
    assert len(batch.works) == 2
    (third,) = queue.admit([request(text=1)])  # it runs already
    assert not queue.has_waiting
    assert queue.complete(batch, 0.1) == [[first, second, third], [other_role]]
    queue.admit([request(text=1)])
    assert len(take(queue).works) == 1  # after that it is new work
    assert queue.counts.shared == 2


def test_no_tenant_shares_a_text_with_another(queue: WorkQueue) -> None:
    """Whoever did would learn from how soon the answer comes what the other one has in flight."""
    (first,) = queue.admit([request(text=1, tenant="acme")])
    batch = take(queue)
    (other,) = queue.admit([request(text=1, tenant="other")])  # runs for acme
    (waits,) = queue.admit([request(text=1, tenant="third")])  # waits for other
    assert queue.complete(batch, 0.1) == [[first]]
    assert sorted(work.tenant for work in take(queue).works) == ["other", "third"]
    assert other.work is not waits.work and queue.counts.shared == 0


def test_callers_of_one_text_leave_without_a_search_for_each(queue: WorkQueue) -> None:
    """Searching the list of them would stop the event loop when thousands give up at once."""
    tickets = queue.admit([request(tokens=1, text=1) for _ in range(900)])
    compared = 0

    class Watched(Ticket):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = object.__hash__

    for ticket in tickets:
        ticket.__class__ = Watched
    assert queue.cancel(reversed(tickets)) == 900
    assert compared <= 900 and queue.is_idle


def test_a_conversation_does_not_wait_for_the_same_text_on_the_patient_worker(clock: Clock) -> None:
    queue = WorkQueue(SMALL, clock, TWO_WORKERS)
    (patient,) = queue.admit([request(text=1, work_class=INGEST)])
    running = queue.take((PREFETCH, INGEST)).batch
    (joins,) = queue.admit([request(text=1, work_class=PREFETCH)])  # the same worker: it cannot be sooner
    (urgent,) = queue.admit([request(text=1, work_class=CONVERSATION)])
    queue.check_integrity()
    own = queue.take((CONVERSATION,)).batch
    assert running is not None and own is not None and tickets_of(own) == [urgent]
    (also,) = queue.admit([request(text=1, work_class=INGEST)])  # joins the one that is sooner
    assert queue.complete(own, 0.1) == [[urgent, also]]
    queue.check_integrity()
    assert not queue.is_idle
    assert queue.complete(running, 0.1) == [[patient, joins]]
    assert queue.is_idle


def test_with_one_worker_a_conversation_joins_what_runs(queue: WorkQueue) -> None:
    (patient,) = queue.admit([request(text=1, work_class=INGEST)])
    batch = take(queue)
    (urgent,) = queue.admit([request(text=1, work_class=CONVERSATION)])
    assert not queue.has_waiting and queue.complete(batch, 0.1) == [[patient, urgent]]


def test_what_conversations_used_of_their_worker_no_prefetch_waits_for(clock: Clock) -> None:
    queue = WorkQueue(replace(SMALL, max_waiting_tokens=10**6), clock, TWO_WORKERS)
    queue.admit([request(tokens=100, work_class=CONVERSATION) for _ in range(300)])
    queue.admit([request(tokens=100, work_class=PREFETCH)])
    assert queue.take((PREFETCH, INGEST)).batch is not None
    queue.admit([request(tokens=100, work_class=INGEST) for _ in range(40)])
    for _ in range(300):
        queue.take((CONVERSATION,))
    assert queue.take((PREFETCH, INGEST)).batch is not None
    queue.admit([request(tokens=100, work_class=PREFETCH)])
    batch = queue.take((PREFETCH, INGEST)).batch
    assert batch is not None and batch.work_class is PREFETCH


def test_no_tenant_gets_all_the_room_of_a_class() -> None:
    queue = WorkQueue(replace(SMALL, tenant_share=0.75), Clock())
    queue.admit([request(tokens=700, tenant="big", work_class=INGEST)])
    with pytest.raises(Overloaded, match="of this tenant"):
        queue.admit([request(tokens=51, tenant="big", work_class=INGEST)])
    queue.admit([request(tokens=50, tenant="big", work_class=INGEST)])
    queue.admit([request(tokens=700, tenant="big", work_class=PREFETCH)])  # each class has its own
    queue.admit([request(tokens=250, tenant="small", work_class=INGEST)])
    with pytest.raises(Overloaded, match="1000 tokens of class ingest"):
        queue.admit([request(tokens=1, tenant="small", work_class=INGEST)])
    with pytest.raises(InvalidInput, match="split it"):  # it could never wait
        queue.admit([request(tokens=751, tenant="third", work_class=INGEST)])
    queue.check_integrity()
    queue.take()
    queue.take()
    queue.admit([request(tokens=700, tenant="big", work_class=INGEST)])  # what left gives room again


def test_a_batch_whose_completion_broke_off_can_be_abandoned(
    queue: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ticket,) = queue.admit([request(text=1)])
    batch = take(queue)

    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(queue._room, "observe", broken)
    with pytest.raises(MemoryError):
        queue.complete(batch, 0.1)
    assert queue.abandon(batch) == [[ticket]]
    queue.check_integrity()
    assert queue.is_idle and ticket.state is TicketState.DONE


def test_sharing_raises_a_text_to_the_most_urgent_class(queue: WorkQueue) -> None:
    queue.admit([request(work_class=INGEST), request(text=1, work_class=INGEST)])
    queue.admit([request(text=1, work_class=CONVERSATION)])
    batch = take(queue)
    assert batch.work_class is CONVERSATION
    assert len(tickets_of(batch)) == 2


def test_a_shared_text_outlives_the_one_who_leaves(queue: WorkQueue, clock: Clock) -> None:
    late, leaves, stays = queue.admit([request(text=1, deadline=101.0), request(text=1), request(text=1)])
    queue.cancel([leaves])
    clock.now = 102.0
    turn = queue.take()
    assert turn.expired == (late,)
    assert turn.batch is not None
    assert tickets_of(turn.batch) == [stays]


@pytest.mark.parametrize("sizes", [[300], [100, 100, 100]])
def test_the_limit_is_the_same_for_one_text_and_for_many(queue: WorkQueue, sizes: list[int]) -> None:
    queue.admit([request(tokens=800)])
    with pytest.raises(Overloaded) as caught:
        queue.admit([request(tokens=size) for size in sizes])
    assert caught.value.retry_after_seconds > 0
    assert queue.waiting_tokens == 800  # nothing of it was kept
    assert queue.counts.refused == len(sizes)
    queue.check_integrity()
    queue.admit([request(tokens=200)])  # up to the limit exactly


def test_a_flood_of_one_class_keeps_nobody_out_of_another(queue: WorkQueue) -> None:
    queue.admit([request(tokens=1_000, work_class=INGEST)])
    with pytest.raises(Overloaded, match="ingest"):
        queue.admit([request(tokens=1, work_class=INGEST)])
    for work_class in (PREFETCH, CONVERSATION):
        queue.admit([request(tokens=1_000, work_class=work_class)])
        with pytest.raises(Overloaded):
            queue.admit([request(tokens=1, work_class=work_class)])
    queue.check_integrity()


def test_room_can_be_asked_for_before_there_are_tokens(queue: WorkQueue) -> None:
    queue.admit([request(tokens=900, work_class=INGEST)])
    queue.require_room(INGEST, "acme", tokens=100, texts=3)
    with pytest.raises(Overloaded) as caught:
        queue.require_room(INGEST, "acme", tokens=101, texts=3)
    assert caught.value.retry_after_seconds > 0
    assert queue.counts.refused == 3
    assert queue.waiting_tokens_of(INGEST) == 900  # asking keeps nothing


def test_a_worker_gets_only_the_classes_that_it_computes(queue: WorkQueue) -> None:
    for work_class in WorkClass:
        queue.admit([request(work_class=work_class)])
    assert queue.has_waiting_of((CONVERSATION,))
    assert [queue.take((CONVERSATION,)).batch is None for _ in range(2)] == [False, True]
    assert not queue.has_waiting_of((CONVERSATION,))
    assert queue.has_waiting_of((PREFETCH, INGEST))
    assert take(queue).work_class is PREFETCH


def test_what_can_never_fit_is_an_error_of_the_caller(queue: WorkQueue) -> None:
    with pytest.raises(InvalidInput, match="split it"):
        queue.admit([request(tokens=600), request(tokens=401)])


def test_a_probe_passes_a_full_queue(queue: WorkQueue) -> None:
    queue.admit([request(tokens=1_000, work_class=INGEST)])
    (probe,) = queue.admit([request()], beyond_limit=True)
    assert tickets_of(take(queue)) == [probe]


def test_the_advice_when_to_come_back_follows_the_measured_pace(queue: WorkQueue) -> None:
    queue.admit([request(tokens=100)])
    queue.complete(take(queue), device_seconds=1.0)  # 100 tokens a second
    queue.admit([request(tokens=1_000)])
    with pytest.raises(Overloaded) as caught:
        queue.admit([request(tokens=500)])
    assert caught.value.retry_after_seconds == pytest.approx(5.0)


def test_answered_deadlines_do_not_pile_up(queue: WorkQueue) -> None:
    for _ in range(1_000):
        queue.admit([request(deadline=10**9)])
        queue.complete(take(queue), 0.001)
    assert len(queue._deadlines) <= 100


def test_tenants_that_left_are_forgotten(queue: WorkQueue) -> None:
    for number in range(500):
        queue.admit([request(tenant=f"tenant {number}")])
        queue.complete(take(queue), 0.001)
    assert len(queue._lanes[CONVERSATION]._share) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_batch_tokens": 0},
        {"max_conversation_tokens": 0},
        {"max_batch_items": 0},
        {"max_waiting_tokens": -1},
        {"look_ahead": 0},
        {"minimum_fill": 1.5},
        {"inline_texts": -1},
        {"max_waiting_characters": 0},
        {"tenant_share": 0.0},
        {"tenant_share": 1.1},
        {"probe_seconds": 0.0},
        {"class_weights": {CONVERSATION: 1.0}},
        {"class_weights": {CONVERSATION: 1.0, PREFETCH: 1.0, INGEST: 0.0}},
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        replace(SMALL, **wrong)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 120),
    st.floats(0.0, 1.0),
    st.sampled_from([ONE_WORKER, TWO_WORKERS]),
)
def test_any_sequence_keeps_the_invariants_and_answers_everything_once(
    seed: int, budget: int, minimum_fill: float, workers: tuple[tuple[WorkClass, ...], ...]
) -> None:
    chance = random.Random(seed)
    clock = Clock()
    limits = BatchingSettings(
        max_batch_tokens=budget,
        max_batch_items=5,
        max_waiting_tokens=300,
        minimum_fill=minimum_fill,
        look_ahead=8,
        tenant_share=1.0,
    )
    queue = WorkQueue(limits, clock, workers)
    alive: list[Ticket] = []
    ended: Counter[int] = Counter()
    running: list[Batch] = []
    for _ in range(120):
        action = chance.choice(["admit", "admit", "take", "complete", "cancel", "wait"])
        if action == "admit":
            wanted = [
                request(
                    tokens=chance.randint(1, 40),
                    tenant=chance.choice("abc"),
                    work_class=chance.choice(list(WorkClass)),
                    deadline=chance.choice([None, clock.now + chance.uniform(0.1, 3.0)]),
                    text=chance.randint(0, 3),
                )
                for _ in range(chance.randint(1, 4))
            ]
            before = {work_class: queue.waiting_tokens_of(work_class) for work_class in WorkClass}
            try:
                alive += queue.admit(wanted)
            except Overloaded:
                assert before == {work_class: queue.waiting_tokens_of(work_class) for work_class in WorkClass}
                for each in wanted:
                    before[each.work_class] += len(each.text.token_ids)
                assert max(before.values()) > 300
        elif action == "take":
            turn = queue.take(chance.choice([tuple(WorkClass), *TWO_WORKERS]))
            ended.update(id(ticket) for ticket in turn.expired)
            if turn.batch is not None:
                running.append(turn.batch)
                check_batch(turn.batch, limits, clock.now)
        elif action == "complete" and running:
            batch = running.pop(chance.randrange(len(running)))
            ended.update(id(ticket) for tickets in queue.complete(batch, 0.01) for ticket in tickets)
        elif action == "cancel" and alive:
            ticket = chance.choice(alive)
            if queue.cancel([ticket]):
                ended[id(ticket)] += 1
        elif action == "wait":
            clock.now += chance.uniform(0.0, 1.0)
        queue.check_integrity()
        assert max(queue.waiting_tokens_of(work_class) for work_class in WorkClass) <= 300
    while not queue.is_idle:
        turn = queue.take()
        ended.update(id(ticket) for ticket in turn.expired)
        running += [turn.batch] if turn.batch is not None else []
        for batch in running:
            ended.update(id(ticket) for tickets in queue.complete(batch, 0.01) for ticket in tickets)
        running.clear()
        queue.check_integrity()
    assert ended == Counter(id(ticket) for ticket in alive)


def check_batch(batch: Batch, limits: BatchingSettings, now: float) -> None:
    assert 1 <= len(batch.works) <= limits.max_batch_items
    assert len({work.key for work in batch.works}) == len(batch.works)
    if len(batch.works) > 1:
        assert batch.padded_tokens <= limits.max_batch_tokens
        assert batch.tokens >= limits.minimum_fill * batch.padded_tokens - 1e-9
    for ticket in tickets_of(batch):
        assert ticket.state is TicketState.RUNNING
        assert ticket.request.deadline is None or ticket.request.deadline > now
