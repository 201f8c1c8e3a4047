"""Texts that belong to nobody, to learn a light encoder on.

What tenants have stored must not shape an encoder that other tenants' clients fetch, and no corpus comes
with precall. So the texts are made: frames of what is said and asked in conversations, filled with words of
the small model's own vocabulary, which names most of what people talk about. The sense of a text does not
matter, that its words reach every part of the space does.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_STATEMENTS: Final = (
    "I love {a} but I can't stand {b}.",
    "We went to {a} with {b} last {c}.",
    "My {a} told me about the {b} yesterday.",
    "She has been working on {a} and {b} since {c}.",
    "The {a} was {b}, so we chose {c} instead.",
    "He never eats {a} because of the {b}.",
    "They moved from {a} to {b} for the {c}.",
    "I just finished {a}, it was really {b}!",
    "Our {a} starts on {b}, please bring the {c}.",
    "The {a} costs {n} and the {b} costs {m}.",
    "Thanks! The {a} helped me a lot with my {b}.",
    "I'm thinking about {a}, maybe {b} would be better.",
    "It happened in {y}: the {a} broke and {b} had to fix the {c}.",
    "{a} prefers {b} over {c}.",
    "Please remember that the {a} must not be {b}.",
    "Wow, that {a} looks {b}. Did you use {c}?",
    "The {a} of the {b} is a {c} that people study in {d}.",
    "In {y} the {a} reported {n} cases of {b} among {c}.",
    "No {a} today, I have a {b} at {n}.",
    "{a} and {b} are both {c}.",
)
_QUESTIONS: Final = (
    "When did {a} go to the {b}?",
    "What does {a} think about {b}?",
    "Where is the {a} that we used for {b}?",
    "Who gave the {a} to {b}?",
    "How many {a} were in the {b} in {y}?",
    "Why did the {a} change the {b}?",
    "Which {a} is best for {b}?",
    "What kind of {a} does {b} like?",
    "How long has {a} been {b}?",
    "Is {a} still allergic to {b}?",
    "Do you remember the {a} about {b} and {c}?",
    "Can you book a {a} near {b} for {n} people?",
    "What did {a} and {b} talk about after the {c}?",
    "What is the {a} of {b}?",
    "How much is the {a} for {b}?",
    "Would {a} enjoy {b}?",
    "Did {a} finish the {b} before {c}?",
    "{a} {b}?",
    "what about the {a}",
    "tell me about {a} and {b} in {c}",
)
_FIRST_YEAR: Final = 1900
_LAST_YEAR: Final = 2030
_LARGEST_NUMBER: Final = 500
_WORDS_A_SLOT: Final = (1, 1, 2, 3)
"""How many words fill a slot, each as likely: things have names of one word or of a few."""


@dataclass(frozen=True, slots=True)
class NeutralTexts:
    """``words``: whole lower-case words, in any order; the same words and seed make the same texts."""

    words: Sequence[str]
    seed: int = 0

    @classmethod
    def of_vocabulary(cls, vocabulary: Sequence[str], seed: int = 0) -> "NeutralTexts":
        """From a WordPiece vocabulary: its whole words of three Latin letters or more, sorted."""
        whole = {token for token in vocabulary if len(token) > 2 and token.isascii() and token.isalpha()}
        return cls(sorted(whole), seed)

    def questions(self, count: int) -> list[str]:
        """Things that are asked or said in a conversation, as a read's query is: two questions to a turn."""
        made = random.Random(f"{self.seed} questions")
        return [self._filled(_STATEMENTS if place % 3 == 2 else _QUESTIONS, made) for place in range(count)]

    def statements(self, count: int) -> list[str]:
        """Things that are remembered."""
        made = random.Random(f"{self.seed} statements")
        return [self._filled(_STATEMENTS, made) for _ in range(count)]

    def _filled(self, frames: Sequence[str], made: random.Random) -> str:
        slots = {name: " ".join(made.choices(self.words, k=made.choice(_WORDS_A_SLOT))) for name in "abcd"}
        return made.choice(frames).format(
            **slots,
            n=made.randint(2, _LARGEST_NUMBER),
            m=made.randint(2, _LARGEST_NUMBER),
            y=made.randint(_FIRST_YEAR, _LAST_YEAR),
        )
