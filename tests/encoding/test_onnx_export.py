import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precall.engine.encoding import onnx_export
from precall.engine.encoding.exported import MANIFEST_NAME, ExportedEncoder, ExportedFile
from precall.engine.encoding.loading import LoadedEncoder
from precall.engine.encoding.minilm import CARD, ModelFiles
from precall.engine.encoding.onnx_export import default_cache_dir, ensure_exported
from precall.engine.errors import ModelUnavailable, NumericsError

RACE = """
import sys
from pathlib import Path
from precall.engine.encoding.minilm import CARD, find_minilm
from precall.engine.encoding.onnx_export import ensure_exported
files = find_minilm()
print("ready", flush=True)
sys.stdin.readline()
print(ensure_exported(files, CARD, Path(sys.argv[1])).files)
"""


@pytest.fixture
def cache(loaded: LoadedEncoder, tmp_path: Path) -> Path:
    """A cache folder that holds a sound export."""
    shutil.copytree(loaded.exported.folder, tmp_path / CARD.fingerprint)
    return tmp_path


def export_from_copy(monkeypatch: pytest.MonkeyPatch, loaded: LoadedEncoder) -> list[Path]:
    """Replace the slow part of an export by a copy of its result; the calls are recorded."""
    exports: list[Path] = []

    def write_graph(files: ModelFiles, aside: Path) -> None:
        exports.append(aside)
        shutil.copy(loaded.exported.graph, aside)

    monkeypatch.setattr(onnx_export, "_write_graph", write_graph)
    return exports


def test_the_files_are_described_as_they_are(loaded: LoadedEncoder) -> None:
    assert [file.name for file in loaded.exported.files] == ["encoder.onnx", "tokenizer.json"]
    assert all(ExportedFile.of(loaded.exported.folder / file.name) == file for file in loaded.exported.files)


def test_a_sound_export_is_used_again(
    cache: Path, minilm_files: ModelFiles, loaded: LoadedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = export_from_copy(monkeypatch, loaded)
    exported = ensure_exported(minilm_files, CARD, cache)
    assert exported.folder == cache / CARD.fingerprint
    assert not exports


@pytest.mark.parametrize(
    "damage", ["flip", "cut", "remove", "tokenizer", "no_manifest", "bad_manifest", "recipe"]
)
def test_a_damaged_export_is_made_again(
    damage: str, cache: Path, minilm_files: ModelFiles, loaded: LoadedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache / CARD.fingerprint
    graph, manifest = folder / "encoder.onnx", folder / MANIFEST_NAME
    if damage == "flip":
        with graph.open("r+b") as file:
            file.seek(40_000_000)
            byte = file.read(1)[0]
            file.seek(40_000_000)
            file.write(bytes([byte ^ 1]))
    elif damage == "cut":
        os.truncate(graph, 1_000)
    elif damage == "remove":
        graph.unlink()
    elif damage == "tokenizer":
        (folder / "tokenizer.json").write_text("{}")
    elif damage == "no_manifest":
        manifest.unlink()
    elif damage == "bad_manifest":
        manifest.write_text('{"recipe": 1, "files": 7')
    else:
        manifest.write_text(manifest.read_text().replace('"recipe": 1', '"recipe": 0'))
    exports = export_from_copy(monkeypatch, loaded)

    exported = ensure_exported(minilm_files, CARD, cache)

    assert len(exports) == 1
    assert exported.files == loaded.exported.files
    assert ensure_exported(minilm_files, CARD, cache) == exported
    assert len(exports) == 1
    assert not list(cache.glob("*.partial-*"))


def test_two_processes_that_race_both_end_well(tmp_path: Path, loaded: LoadedEncoder) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", RACE, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=120) for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    # The real export, twice over: the same bytes as the one in use, and not a word on either stream.
    assert [result for result, _ in results] == [f"{loaded.exported.files}\n"] * 2
    assert [noise for _, noise in results] == ["", ""]
    assert not list(tmp_path.glob("*.partial-*"))


def test_what_a_killed_export_left_is_cleared_away_and_never_used(
    tmp_path: Path, minilm_files: ModelFiles, loaded: LoadedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f"{CARD.fingerprint}.partial-abc"
    left.mkdir()
    (left / "encoder.onnx").write_bytes(b"half")
    export_from_copy(monkeypatch, loaded)
    assert ensure_exported(minilm_files, CARD, tmp_path).files == loaded.exported.files
    assert not left.exists()


def test_an_export_that_fails_leaves_nothing_to_use(
    tmp_path: Path, minilm_files: ModelFiles, loaded: LoadedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_graph(files: ModelFiles, aside: Path) -> None:
        shutil.copy(loaded.exported.graph, aside)
        raise NumericsError("disagrees")

    monkeypatch.setattr(onnx_export, "_write_graph", write_graph)
    with pytest.raises(NumericsError):
        ensure_exported(minilm_files, CARD, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{CARD.fingerprint}.lock"]


def test_a_graph_that_disagrees_with_torch_is_refused(loaded: LoadedEncoder) -> None:
    import torch

    class Constant(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return torch.full((len(input_ids), CARD.dimension), CARD.dimension**-0.5)

    with pytest.raises(NumericsError, match="disagrees with torch"):
        onnx_export._compare_with_torch(Constant(), loaded.exported.folder)


def test_a_cache_that_cannot_be_written_is_said_so(tmp_path: Path, minilm_files: ModelFiles) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelUnavailable, match="cache directory"):
        ensure_exported(minilm_files, CARD, tmp_path / "file")


def test_the_default_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "precall" / "encoders"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "precall" / "encoders"


def test_the_exported_tokenizer_neither_pads_nor_cuts(loaded: LoadedEncoder) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(ExportedEncoder(loaded.exported.folder, ()).tokenizer))
    assert len(tokenizer.encode("word").ids) == 3
    assert len(tokenizer.encode("word " * 700).ids) == 702
