"""Text of a memory made fit to stand between the tags of a prompt's block."""

from collections.abc import Iterable, Iterator
from typing import Final

_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}  # the first goes first

_LOOK_ALIKES: Final = {
    "&": "\uff06\ufe60",
    "<": "\uff1c\ufe64\u2039\u2329\u3008\u27e8\u276e\u2770\u29fc\u2991\u02c2\u226e",
    ">": "\uff1e\ufe65\u203a\u232a\u3009\u27e9\u276f\u2771\u29fd\u2992\u02c3\u226f",
    '"': "\uff02",
}
"""What a model may read as the sign: wide and small forms, angle quotation marks and brackets. Letters that
look like them (Canadian syllabics) are left alone: a language is written with those."""

_CONTROLS: Final = ((0x00, 0x1F), (0x7F, 0x9F), (0x2028, 0x2029))

_UNSEEN: Final = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x061C, 0x061C),  # direction marks
    (0x200E, 0x200F),
    (0x180E, 0x180E),  # of no width; the joiners U+200C and U+200D stay, spelling and emoji need them
    (0x200B, 0x200B),
    (0xFEFF, 0xFEFF),
    (0x202A, 0x202E),  # embeddings and overrides of direction
    (0x2060, 0x206F),  # word joiner, invisible operators, isolates
    (0xFFF9, 0xFFFB),  # interlinear annotation
    (0x1BCA0, 0x1BCA3),  # shorthand controls
    (0x1D173, 0x1D17A),  # musical controls
    (0xE0000, 0xE0FFF),  # tags and variation selectors: a run of them can carry any message
)
_SURROGATES: Final = ((0xD800, 0xDFFF),)


def escape(text: str) -> str:
    """Make a memory unable to close its delimiter, to open another one, or to hide what it says.

    Markup and what looks like it becomes entities. Characters that nobody sees are removed: bidirectional
    controls, those of no width, tags. Control characters and white space of any kind, line ends among them,
    become single spaces. A lone surrogate, which nothing can encode, becomes U+FFFD.
    """
    text = " ".join(text.split())
    if text.isascii() and text.isprintable():  # most texts are, and this is far quicker
        for sign, entity in _ENTITIES.items():
            text = text.replace(sign, entity)
        return text
    return " ".join(text.translate(_REPLACEMENTS).split())


def _codes(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    return (code for first, last in ranges for code in range(first, last + 1))


_REPLACEMENTS: Final = {
    **{ord(like): _ENTITIES[sign] for sign, alike in _LOOK_ALIKES.items() for like in (sign, *alike)},
    **dict.fromkeys(_codes(_CONTROLS), " "),
    **dict.fromkeys(_codes(_UNSEEN), ""),
    **dict.fromkeys(_codes(_SURROGATES), "\ufffd"),
}
