"""Runs in the peer's environment, without precall: maximem-synap's `AnticipationCache` on what it is given.

    python peer_cache.py forms FOLDER     questions.json -> forms.json, each as the cache would reword it
    python peer_cache.py answer FOLDER    job.json, vectors.npz -> answers.json
    python peer_cache.py time FOLDER      job.json, vectors.npz -> times.json

The cache is made as its own SDK makes it, with the bars it ships; items are stored as bundles, a bundle a
query that they were fetched for, and their vectors come from a table, so no model's time is in a look-up.
"""

import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

OWNER = "user"
LIMIT = 10
MATCHERS = {
    "words": {"matcher": "bm25"},
    "meaning": {"matcher": "semantic"},
    # Answers always, with its score: whoever asked draws the bar.
    "meaning, bar fitted": {"matcher": "semantic", "min_cosine": -1.0, "sure_min_cosine": -1.0},
}


class Table:
    """The vectors of all texts that are stored or asked: plain lists, which its cosine reads fastest."""

    model = "table"

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def encode(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "forms":
        from maximem_synap.cache.anticipation_cache import canonical_query  # type: ignore[import-not-found]

        questions = json.loads((folder / "questions.json").read_text())
        (folder / "forms.json").write_text(json.dumps([canonical_query(text) for text in questions]))
        return
    job = json.loads((folder / "job.json").read_text())
    with np.load(folder / "vectors.npz") as file:
        items, asked = file["items"].tolist(), file["asked"].tolist()
    texts: list[str] = job["items"]
    questions = Table(dict(zip(job["asked"], asked, strict=True)) | dict(zip(texts, items, strict=True)))
    if what == "answer":
        _remember_tokens()
        answers = {
            name: [_answer(_filled(options, questions, texts, case["groups"]), case) for case in job["cases"]]
            for name, options in MATCHERS.items()
        }
        (folder / "answers.json").write_text(json.dumps(answers))
    else:
        times = {
            name: _times(options, questions, texts, job)
            for name, options in MATCHERS.items()
            if "min_cosine" not in options
        }
        (folder / "times.json").write_text(json.dumps(times))


def _remember_tokens() -> None:
    """The same items are stored again for every question: take their words apart once. Never while timing."""
    from maximem_synap.cache import anticipation_cache as module

    module.tokenize = functools.cache(module.tokenize)


def _filled(options: dict[str, Any], table: Table, texts: list[str], groups: list[dict[str, Any]]) -> Any:
    from maximem_synap.cache.anticipation_cache import AnticipationCache

    # Its default of 100 bundles would let it drop what ours still holds.
    cache = AnticipationCache(
        max_entries=len(groups) + 1, encoder=table, embed_in_background=False, **options
    )
    for number, group in enumerate(groups):
        items = [{"content": texts[row], "row": row, "confidence": 1.0} for row in group["rows"]]
        cache.store(
            {
                "bundle_id": str(number),
                "items_by_type": {"facts": items},
                "search_queries": [group["query"]],
                "_anticipation_user_id": OWNER,
            }
        )
    return cache


def _answer(cache: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Rows served, the best one's score, and whether the cache says that it is sure; words know no doubt."""
    told: dict[str, Any] = {}
    cache.register_lookup_hook(told.update)
    found = cache.lookup([case["question"]], OWNER, None, LIMIT)
    if found is None:
        return {"rows": None, "sure": False, "score": 0.0}
    best = told["items_picked"][0]
    return {
        "rows": [item["row"] for item in found["items"]],
        "sure": found.get("_match_band", "sure") == "sure",
        "score": best.get("cosine", best.get("bm25_score")),
    }


def _times(
    options: dict[str, Any], table: Table, texts: list[str], job: dict[str, Any]
) -> dict[str, list[float]]:
    """Seconds of each look-up, by the number of items."""
    times: dict[str, list[float]] = {}
    for size in job["sizes"]:
        step = max(1, size // 50)  # fewer bundles than it keeps
        groups = [
            {"query": "", "rows": list(range(start, min(start + step, size)))}
            for start in range(0, size, step)
        ]
        cache = _filled(options, table, texts, groups)
        cache.lookup([job["questions"][0]], OWNER, None, LIMIT)  # it makes its index on the first one
        taken = []
        for question in job["questions"]:
            begin = time.perf_counter()
            cache.lookup([question], OWNER, None, LIMIT)
            taken.append(time.perf_counter() - begin)
        times[str(size)] = taken
    return times


if __name__ == "__main__":
    main()
