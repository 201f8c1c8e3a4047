"""Words in Devanagari: one spelling for what is spelt in several ways, and the endings of Hindi taken off.

After Ramanathan & Rao, "A Lightweight Stemmer for Hindi" (2003), with the endings of case and number alone:
those of verbs cost more than they brought on XQuAD's Hindi part.
"""

import re
from typing import Final

_NUKTA: Final = "\u093c"
_VIRAMA: Final = "\u094d"
_JOINERS: Final = "\u200c\u200d"
_ONE_FOR_ANOTHER: Final = str.maketrans(
    {
        _NUKTA: None,
        **dict.fromkeys(_JOINERS),
        "\u0901": "\u0902",  # candrabindu, anusvara
        "\u0949": "\u093e",  # the o and the e of English words
        "\u0945": "\u0947",
    }
)
_JOINED_NASAL: Final = re.compile(f"[ङञणनम]{_VIRAMA}(?=[क-ह])")
_ENDINGS: Final = tuple(
    sorted("ो े ू ु ी ि ा ीं ां ों ें ाओं ियां ियों".split(), key=len, reverse=True)  # noqa: SIM905
)
_SHORTEST_STEM: Final = 2


def fold(word: str) -> str:
    """The word in one spelling: no nukta, no joiners, each nasal before a consonant an anusvara; may be
    empty.
    """
    return _JOINED_NASAL.sub("\u0902", word.translate(_ONE_FOR_ANOTHER))


def stem(folded: str) -> str:
    """A folded word without the longest ending that leaves two characters."""
    for ending in _ENDINGS:
        if folded.endswith(ending) and len(folded) - len(ending) >= _SHORTEST_STEM:
            return folded[: -len(ending)]
    return folded


STOP_WORDS: Final = frozenset(
    fold(word)
    for word in """
    का के की को में से पर ने है हैं था थी थे और या भी तो ही यह ये वह वे इस उस इन उन इसका इसके इसकी उसका उसके
    उसकी कि जो एक कर करने किया किए गया गई गए हो होता होती होते हुआ हुई हुए रहा रही रहे लिए साथ तक द्वारा क्या
    कौन कब कहाँ कैसे क्यों किस किसने किसे किसके कितने कितनी कितना कौनसा कौनसी जिस जिसने जिसे जिसके जब तब वाले
    वाली वाला अपने अपनी अपना मैं मुझे मेरा मेरी मेरे आप तुम हम
    """.split()  # noqa: SIM905 - a list of 85 quoted words is no easier to read
)
"""Folded. Postpositions, auxiliaries, pronouns and question words of Hindi."""
