from pathlib import Path

import pytest

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import LoadedEncoder, load_default_encoder
from precall.engine.errors import ConfigurationError, ModelUnavailable


async def test_the_default_encoder_behind_the_batcher_gives_the_vectors_it_gives_alone(
    loaded: LoadedEncoder,
) -> None:
    encoder = loaded.encoder
    texts = [f"{number} " + "the kettle is on " * number for number in (1, 30, 4, 12, 2)]
    alone = [
        encoder.encode([encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)]).vectors[0]
        for text in texts
    ]
    batcher = Batcher(encoder)
    await batcher.start()
    outcomes = await batcher.embed(
        [*texts, "word " * 255], TextRole.DOCUMENT, tenant="acme", work_class=WorkClass.INGEST
    )
    await batcher.close()
    for vector, outcome in zip(alone, outcomes, strict=False):
        assert float(vector @ outcome.require_vector()) >= 0.9999
    assert outcomes[-1].error is not None
    assert outcomes[-1].error.reason == "TEXT_TOO_LONG"


def test_the_model_path_is_what_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="model_path"):
        load_default_encoder(model_path=tmp_path)


def test_a_wrong_number_of_threads_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        load_default_encoder(threads=0)
