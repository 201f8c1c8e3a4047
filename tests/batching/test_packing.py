"""Which texts share a batch, by what the device does with lengths."""

import numpy as np

from precall.engine.batching.packing import pack
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Work, WorkClass
from precall.engine.encoding.encoder import TextRole, TokenizedText, TokenUsage


def works(*lengths: int) -> list[Work]:
    return [
        Work(
            (TextRole.DOCUMENT, bytes([number])),
            TokenizedText(np.zeros(length, np.int64), TokenUsage(length, length)),
            "acme",
            WorkClass.INGEST,
        )
        for number, length in enumerate(lengths)
    ]


def lengths(chosen: list[Work]) -> list[int]:
    return [work.tokens for work in chosen]


def test_where_the_device_pads_like_lengths_go_together() -> None:
    settings = BatchingSettings(max_batch_tokens=100)
    assert lengths(pack(works(10, 90, 11, 80, 9), settings)) == [10, 11, 9]


def test_where_it_does_not_real_tokens_count_and_the_order_stays() -> None:
    settings = BatchingSettings(max_batch_tokens=100, padded=False)
    assert lengths(pack(works(10, 60, 1, 20, 9, 1), settings)) == [10, 60, 1, 20, 9]


def test_without_padding_nobody_is_passed_by_a_shorter_text() -> None:
    settings = BatchingSettings(max_batch_tokens=100, padded=False)
    assert lengths(pack(works(10, 95, 1), settings)) == [10]


def test_without_padding_the_limits_hold_too() -> None:
    settings = BatchingSettings(max_batch_tokens=100, max_batch_items=2, padded=False)
    assert lengths(pack(works(1, 1, 1), settings)) == [1, 1]
    assert lengths(pack(works(500, 1), settings)) == [500]
