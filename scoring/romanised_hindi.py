"""Hindi in Latin letters: how it is told from English, and its words of grammar.

Nobody spells it by a rule, so a word stands here in each of the spellings that are common.
"""

from collections.abc import Collection
from typing import Final

MARKS: Final = frozenset(
    """
    hai hain hei hoon kaa kee aur bhi bhee toh kya koyi koee kisi kaun kaunsa kahan kaha kaise kyun kyon kyu
    yeh woh iska iske iski uska uske uski unka unke unki mujhe muje mujhko aap aapka aapke aapki tumhara
    tumhare humara hamara hamen raha rahe rahi rha rhe rhi karke karna karne karta karti karte hona hota hoti
    hote liye wala wali chahiye chaahiye chahie chahta chahti kuch kuchh nahi nahin
    """.split()  # noqa: SIM905 - a list of 80 quoted words is no easier to read
)
"""Words that are Hindi and nothing else: one of them says what the text is."""

_AMBIGUOUS: Final = frozenset(
    """
    main mai mei mein me men mere mera meri h hu ho hun he ke k ka ki ko se par pe jo vo or to is us un in the
    tha thi kis kar karo hum hame tum ap le lie hone hua hue hui vale vali wale ye yah wo koi kab ji na ne
    """.split()  # noqa: SIM905
)
# Elsewhere English words, names of people, food and fish, or a paper's signs, as sodium and pKa are.

_NEGATIONS: Final = frozenset(("nahi", "nahin"))

STOP_WORDS: Final = (MARKS | _AMBIGUOUS) - _NEGATIONS
"""Words of grammar, in a text with a mark."""


def is_romanised_hindi(words: Collection[str]) -> bool:
    """Whether words in lower case are of such a text, if only in part."""
    return not MARKS.isdisjoint(words)
