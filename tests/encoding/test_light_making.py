"""A light encoder from two models: what is embedded, what is kept on disk, and when it is made anew."""

import asyncio
import itertools
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.exported import ExportedEncoder, ExportedFile
from precall.engine.encoding.light_encoder import MANIFEST_NAME, MAP_NAME, LightFolder, SmallModel
from precall.engine.encoding.light_making import LightMaking, SmallEncoder
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.encoding.loading import LoadedEncoder
from precall.engine.encoding.minilm import CARD
from precall.engine.errors import ModelUnavailable
from tests.fakes.letters import DIMENSION, Letters, word_sum


class WordSums:
    """A large model: the unit sum of a vector a word. Texts that hold ``mute`` get none."""

    def __init__(self, fingerprint: str = "large", mute: str | None = None) -> None:
        self.fingerprint = fingerprint
        self.asked: dict[TextRole, list[str]] = {role: [] for role in TextRole}
        self._mute = mute

    async def embed(self, texts: Sequence[str], role: TextRole) -> Sequence[np.ndarray | None]:
        self.asked[role] += texts
        return [None if self._mute is not None and self._mute in text else word_sum(text) for text in texts]


def making(
    large: WordSums, small: SmallModel, root: Path, clock: Callable[[], float] = lambda: 0.0
) -> LightMaking:
    settings = LightSettings(fitted=96, least_fitted=32, measured=16)
    return LightMaking(large, small, root, settings, clock, load=lambda _: Letters())


@pytest.fixture
def small(tmp_path: Path) -> SmallModel:
    """Its files are what clients are to fetch; nothing runs them here."""
    folder = tmp_path / "small"
    folder.mkdir()
    for name in ("encoder.onnx", "tokenizer.json"):
        (folder / name).write_text(name)
    files = tuple(ExportedFile.of(folder / name) for name in ("encoder.onnx", "tokenizer.json"))
    return SmallModel(ExportedEncoder(folder, files), CARD)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "light"


async def test_what_is_made_is_kept_and_not_made_again(small: SmallModel, root: Path) -> None:
    large = WordSums()
    made = await making(large, small, root).make()
    assert made.model_fingerprint == "large"
    assert [file.name for _, file in made.files] == ["encoder.onnx", "tokenizer.json", "map.npy"]
    assert all((folder / file.name).stat().st_size == file.size_bytes for folder, file in made.files)
    assert np.load(made.folder / MAP_NAME).shape == (DIMENSION + 1, DIMENSION)
    assert 0.3 < made.agreement.cosine <= 1.0 and 0 < made.agreement.score < made.agreement.distance
    assert [entry.name for entry in made.folder.parent.iterdir()] == [made.folder.name]

    again = WordSums()
    assert await making(again, small, root).make() == made
    assert not again.asked[TextRole.QUERY] and not again.asked[TextRole.DOCUMENT]


async def test_what_is_measured_on_shares_no_word_with_what_is_fitted_on(
    small: SmallModel, root: Path
) -> None:
    large = WordSums()
    await making(large, small, root).make()
    asked = large.asked[TextRole.QUERY]
    assert len(asked) == 16 + 96 and len(large.asked[TextRole.DOCUMENT]) == 16
    names = {word for word in Letters().words() if word.isalpha()}
    measured, fitted = (
        {word for text in texts for word in re.findall(r"\w+", text) if word in names}
        for texts in (asked[:16] + large.asked[TextRole.DOCUMENT], asked[16:])
    )
    assert len(measured) > 20 and len(fitted) > 50 and not measured & fitted


async def test_the_time_is_bounded(small: SmallModel, root: Path) -> None:
    ticks = itertools.count(0.0, 10_000.0)
    large = WordSums()
    await making(large, small, root, clock=lambda: next(ticks)).make()
    assert len(large.asked[TextRole.QUERY]) == 16 + 32


async def test_a_text_without_a_vector_is_left_out_and_a_model_without_any_is_an_error(
    small: SmallModel, root: Path
) -> None:
    made = await making(WordSums(mute="allergic"), small, root / "some").make()
    assert np.isfinite(np.load(made.folder / MAP_NAME)).all()
    with pytest.raises(ModelUnavailable, match="embedded 0 of 16"):
        await making(WordSums(mute=""), small, root / "none").make()
    assert not (root / "none").exists()


@pytest.mark.parametrize("damage", ["map", "cut", "manifest", "gone", "another", "small"])
async def test_what_is_damaged_or_another_models_is_made_anew(
    small: SmallModel, root: Path, damage: str
) -> None:
    made = await making(WordSums(), small, root).make()
    path, manifest = made.folder / MAP_NAME, made.folder / MANIFEST_NAME
    sound = path.read_bytes()
    fields = json.loads(manifest.read_text())
    match damage:
        case "map":
            path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        case "cut":
            path.write_bytes(sound[:-4])
        case "manifest":
            manifest.write_text("{")
        case "gone":
            path.unlink()
        case "another":
            manifest.write_text(json.dumps(fields | {"model_fingerprint": "another"}))
        case "small":
            manifest.write_text(json.dumps(fields | {"small_fingerprint": "another"}))
    large = WordSums()
    again = await making(large, small, root).make()
    assert large.asked[TextRole.QUERY], "it was believed"
    assert again == made and path.read_bytes() == sound


async def test_each_large_and_each_small_model_has_a_folder_of_its_own(small: SmallModel, root: Path) -> None:
    first = await making(WordSums("one"), small, root).make()
    second = await making(WordSums("two"), small, root).make()
    other = replace(small, card=replace(small.card, revision="next"))
    third = await making(WordSums("two"), other, root).make()
    assert len({made.folder for made in (first, second, third)}) == 3
    shutil.copytree(second.folder, first.folder, dirs_exist_ok=True)
    assert LightFolder(first.folder).read("one", small) is None


async def test_two_servers_that_make_one_at_once_both_end_well(small: SmallModel, root: Path) -> None:
    made = await asyncio.gather(*(making(WordSums(), small, root).make() for _ in range(2)))
    assert made[0] == made[1]
    assert LightFolder(made[0].folder).read("large", small) == made[0]


async def test_the_small_model_embeds_as_its_own_encoder_does(loaded: LoadedEncoder) -> None:
    assert loaded.exported is not None
    small = SmallEncoder(SmallModel(loaded.exported, CARD))
    try:
        texts = ["Where did we leave the spare keys?", "yes"]
        (first, second) = await small.embed(texts)
        tokenized = [loaded.encoder.tokenize(text, TextRole.QUERY, truncate=True) for text in texts]
        assert np.vecdot([first, second], loaded.encoder.encode(tokenized).vectors).min() > 0.9999
        assert {"keys", "[CLS]", "##ing"} <= set(small.words())
    finally:
        small.close()
