import pytest

from precall.engine.encoding.guard import NumericsGuard
from precall.engine.encoding.loading import LoadedEncoder, load_default_encoder
from precall.engine.encoding.minilm import ModelFiles, find_minilm


@pytest.fixture(scope="session")
def minilm_files() -> ModelFiles:
    return find_minilm()


@pytest.fixture(scope="session")
def loaded() -> LoadedEncoder:
    """The default encoder from the user's cache, so that only the first run on a machine exports it."""
    return load_default_encoder()


@pytest.fixture(scope="session")
def guard(loaded: LoadedEncoder) -> NumericsGuard:
    return loaded.guard
