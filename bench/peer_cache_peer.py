"""maximem-synap's cache, asked through files by `tools/peer_cache.py` in an environment of its own."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.peer_cache_cases import CacheCase, Served
from precall.bench.peer_cache_report import LookupTime
from precall.bench.peer_cache_stage import PeerCacheStage

SCRIPT: Final = Path(__file__).resolve().parent.parent / "tools" / "peer_cache.py"


class PeerCacheFailed(RuntimeError):
    """The peer could not be asked; the message says what to do."""


class Peer:
    """The other cache, asked through files; see `tools/peer_cache.py`."""

    def __init__(self, python: Path, folder: Path, stage: PeerCacheStage) -> None:
        self._python = python
        self._folder = folder
        self._write("questions.json", stage.asked_texts)
        self._run("forms")
        forms = [text for text in self._read("forms.json") if text not in stage.rung.vectors]
        self._forms = list(dict.fromkeys(forms))
        self._asked = [*stage.asked_texts, *self._forms]
        self._stage = stage
        vectors = [stage.rung.vectors[text] for text in stage.asked_texts]
        self._asked_vectors = np.concatenate([np.stack(vectors), stage.embed(self._forms)])

    def answers(self, asked: Sequence[CacheCase]) -> dict[str, list[Served]]:
        told = [
            {
                "question": case.question,
                "groups": [{"query": group.query, "rows": group.rows} for group in case.groups],
            }
            for case in asked
        ]
        self._tell(self._stage.item_texts, self._stage.item_vectors, cases=told)
        self._run("answer")
        return {
            name: [
                Served(None if each["rows"] is None else tuple(each["rows"]), each["sure"], each["score"])
                for each in answers
            ]
            for name, answers in self._read("answers.json").items()
        }

    def times(self, sizes: Sequence[int]) -> list[LookupTime]:
        items = self._stage.padded(max(sizes))
        questions = self._stage.timed_questions
        self._tell(items.texts, items.vectors, sizes=list(sizes), questions=questions)
        self._run("time")
        return [
            LookupTime(name, int(size), 1000 * float(np.median(taken)))
            for name, times in self._read("times.json").items()
            for size, taken in times.items()
        ]

    def _tell(self, texts: Sequence[str], vectors: NDArray[np.float32], **job: Any) -> None:
        self._write("job.json", {"items": texts, "asked": self._asked, **job})
        np.savez(self._folder / "vectors.npz", items=vectors, asked=self._asked_vectors)

    def _run(self, what: str) -> None:
        command = [str(self._python), "-P", str(SCRIPT), what, str(self._folder)]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except FileNotFoundError:
            raise PeerCacheFailed(
                f"no Python at {self._python}: `make .venv-peer-cache/.installed` makes one"
            ) from None
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["no message"])[-1]
            raise PeerCacheFailed(f"the peer failed: {last}") from None

    def _write(self, name: str, value: Any) -> None:
        (self._folder / name).write_text(json.dumps(value))

    def _read(self, name: str) -> Any:
        return json.loads((self._folder / name).read_text())
