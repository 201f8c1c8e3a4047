"""The parts of a compound question, each of which can be searched for alone.

A cut lies after a question mark, at a semicolon, and where a second clause begins to ask. What cannot stand
alone stays with its neighbour: a part says what it asks about and refers to nothing before it. What states
something and then asks is a turn of a conversation and no compound question: its questions are about what it
states, and parts of it find worse than the whole (MADial, nDCG@10 .517 for .536).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from precall.scoring.terms import STOP_WORDS, analyze

MOST_PARTS: Final = 4
"""Each costs a search and its share of the reranker; what comes after stays in the last one."""

_MOST_CHARACTERS: Final = 2_000
"""A longer text is a document that somebody searches with, and no question."""

_LEAST_TERMS: Final = 2
"""A part with fewer words of content finds too much."""

_REFERRING: Final = frozenset(
    """
    he him his himself she her hers herself it its itself they them their theirs themselves this that these
    those there then one ones
    वह वो वे उस उसने उसे उसका उसकी उसके उन उन्होंने उन्हें उनका उनकी उनके यह ये इस इसे इसका इसकी इसके
    woh wo usne use uska uski uske unhone unka unki unke yeh iska iski iske
    """.split()  # noqa: SIM905 - a list of so many quoted words is no easier to read
)
"""Words that mean something only beside what was said before."""

_WORD: Final = re.compile("[\\w\u0900-\u0963]+")


def split_query(text: str) -> tuple[str, ...]:
    """The parts of a compound query in their order, two to `MOST_PARTS` of them; () if it is not compound.

    Each is a piece of the text; all of its words are in one, but for the conjunctions between them.
    """
    if len(text) > _MOST_CHARACTERS or _STATEMENT.search(text):
        return ()
    pieces = [slice(0, len(text))]
    for boundary in _BOUNDARIES:
        pieces = [cut for piece in pieces for cut in boundary.cut(text, piece)]
    parts = _standing_alone(text, pieces)
    return tuple(text[part].strip() for part in parts) if len(parts) > 1 else ()


@dataclass(frozen=True, slots=True)
class _Boundary:
    """A separator cuts where ``question`` is found on both of its sides."""

    separator: re.Pattern[str]
    question: re.Pattern[str]

    def cut(self, text: str, piece: slice) -> Iterator[slice]:
        begin = piece.start
        for match in self.separator.finditer(text, piece.start, piece.stop):
            left, right = text[begin : match.start()], text[match.end() : piece.stop]
            if self.question.search(left) and self.question.search(right):
                yield slice(begin, match.start())
                begin = match.end()
        yield slice(begin, piece.stop)


def _any_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_ASKING: Final = _any_of("who whom whose what when where which why how")
_AUXILIARY: Final = _any_of("am is are was were do does did has have had can could will would shall should")
_HINDI_ASKING: Final = _any_of(
    "क्या कब कहाँ कहां कौन किसने किसे किसका किसकी किसके क्यों कैसे कैसा कैसी कितना कितने कितनी "
    "kya kab kahan kahaan kaun kisne kise kiska kiski kyun kyon kaise kitna kitne kitni"
)
_AND: Final = r",?\s+(?:and|also|plus|as\s+well\s+as)\s+"
_MARKS: Final = "?\uff1f\u061f"
_SEMICOLONS: Final = ";\uff1b\u061b"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


_STATEMENT: Final = _pattern(r"\w{4,}[.!]+\s+\w|[\u3002\uff01\u0964]\s*\w")
"""A sentence that does not ask, before another one. Four letters: "Dr. Rao" and "St. Louis" are no ends."""

_BOUNDARIES: Final = (
    # A statement behind the last question belongs to it.
    _Boundary(_pattern(rf"(?<=[{_MARKS}])(?=.*[{_MARKS}])|[{_SEMICOLONS}]"), _pattern(r"\w")),
    # "What does Dana drink, and where did Eli move", but not "Where do Dana and Eli live".
    _Boundary(_pattern(rf"{_AND}(?={_ASKING}\b)"), _pattern(rf"\b{_ASKING}\b|^\W*{_AUXILIARY}\b")),
    # "Did Dana move and did Eli stay", but not "What did Dana see and have for dinner".
    _Boundary(_pattern(rf"{_AND}(?={_AUXILIARY}\b)"), _pattern(rf"^\W*{_AUXILIARY}\b")),
    # "Where does Dana live, what does Eli drink", but not "When Dana was in Pune, where did she live".
    _Boundary(_pattern(r",\s+"), _pattern(rf"^\W*{_ASKING}\s+{_AUXILIARY}\b")),
    # Hindi asks anywhere in a clause.
    _Boundary(
        _pattern(r",?\s+(?:और|तथा|एवं|aur)\s+"),
        _pattern(rf"(?<!\S){_HINDI_ASKING}(?![\w\u0900-\u0963])"),
    ),
)


def _standing_alone(text: str, pieces: Sequence[slice]) -> list[slice]:
    """Pieces, each joined with the one before it where one of the two cannot stand alone."""
    parts: list[slice] = []
    for piece in pieces:
        if parts and (
            len(parts) == MOST_PARTS
            or _refers_back(text[piece])
            or not (_says_enough(text[piece]) and _says_enough(text[parts[-1]]))
        ):
            parts[-1] = slice(parts[-1].start, piece.stop)
        else:
            parts.append(piece)
    return parts


def _says_enough(part: str) -> bool:
    return len(set(analyze(part)) - STOP_WORDS) >= _LEAST_TERMS


def _refers_back(part: str) -> bool:
    return not _REFERRING.isdisjoint(_WORD.findall(part.casefold()))
