"""What is embedded: turns of real conversations, abstracts of papers, short questions; else made-up text."""

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from precall.bench.locomo import load_conversations

_WORDS: Final = (
    *("garden", "train", "letter", "orange", "window", "doctor", "yellow", "river", "kitchen", "music"),
    *("paper", "winter", "holiday", "brother", "ticket", "morning", "bridge", "coffee", "office", "market"),
    *("summer", "island", "camera", "lesson", "village", "dinner", "painting", "weather", "journey", "radio"),
)
"""Each is one token of MiniLM's vocabulary."""


@dataclass(frozen=True, slots=True)
class EmbedTexts:
    """``turns`` are the usual case, ``abstracts`` the long one, many over 256 tokens; ``questions`` are the
    queries. ``origin`` says what they are, for the report.
    """

    turns: Sequence[str]
    abstracts: Sequence[str]
    questions: Sequence[str]
    origin: str


def load_texts(data: Path, *, turns: int, abstracts: int, seed: int = 7) -> EmbedTexts:
    """Drawn from ``data/locomo`` and ``data/scifact`` where they are, made up where they are not."""
    chance = random.Random(seed)
    locomo, scifact = data / "locomo", data / "scifact" / "corpus_train.csv"
    origins = []
    if locomo.is_dir():
        conversations = load_conversations(locomo)
        all_turns = [turn.text for conversation in conversations for turn in conversation.turns]
        questions = [each.question for conversation in conversations for each in conversation.questions]
        origins.append("LoCoMo turns")
    else:
        all_turns = [made_up_text(chance, round(chance.triangular(15, 70, 25))) for _ in range(turns)]
        questions = [made_up_text(chance, round(chance.triangular(5, 15, 9))) for _ in range(1_000)]
        origins.append("made-up turns")
    if scifact.is_file():
        with scifact.open(newline="", encoding="utf-8") as file:
            all_abstracts = [f"{row['title']} {row['abstract']}" for row in csv.DictReader(file)]
        origins.append("SciFact abstracts")
    else:
        all_abstracts = [made_up_text(chance, round(chance.triangular(120, 400))) for _ in range(abstracts)]
        origins.append("made-up abstracts")
    chance.shuffle(questions)
    return EmbedTexts(
        _draw(chance, all_turns, turns),
        _draw(chance, all_abstracts, abstracts),
        questions,
        " and ".join(origins),
    )


def made_up_text(chance: random.Random, words: int) -> str:
    """A text of ``words`` words, each one token, so that MiniLM sees ``words + 2`` tokens."""
    return " ".join(chance.choices(_WORDS, k=words))


def _draw(chance: random.Random, texts: Sequence[str], count: int) -> Sequence[str]:
    """``count`` different texts, or all of them if there are fewer."""
    distinct = sorted({text for text in texts if text.strip()})
    return chance.sample(distinct, min(count, len(distinct)))
