"""Which kind of value a question asks for, and whether a text holds one.

A question for a time, an amount of money, a duration or a number is answered by a text that names one. A
cache whose best memories name none may hold the right topic and lack the answer. The rules look at words
alone, in English, Hindi (both its scripts), Chinese and Arabic, with digits of any script. They rather say
nothing than guess: a question of no known form asks for no kind.
"""

import re
import unicodedata
from enum import Enum
from types import MappingProxyType
from typing import Final

MOST_CHARACTERS: Final = 2_000
"""So much of a text is looked at: a value that stands deeper is seldom what a long text is about."""


class ValueKind(Enum):
    TIME = "time"  # a date, a time of day, or a word such as "yesterday"
    AMOUNT = "amount"  # of money
    DURATION = "duration"
    NUMBER = "number"


def asked_kind(question: str) -> ValueKind | None:
    """The kind of value that a question asks for; None where it asks for none, or in no form known here.

    "It shows how much she cares." asks for nothing: a sentence counts that ends in a question mark, or that
    has no end, as what is spoken.
    """
    for sentence in _ASKING.findall(_folded(question)):
        for kind, form in _QUESTIONS:
            if form.search(sentence):
                return kind
    return None


def holds(text: str, kind: ValueKind) -> bool:
    """Whether a text names a value of the kind."""
    return _VALUES[kind].search(_folded(text)) is not None


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS]).casefold()
    return folded.replace("\u2019", "'")


def _any(*patterns: str) -> str:
    return "|".join(patterns)


_ASKING: Final = re.compile(r"[^.!?。؟।]+(?=[?؟]|\s*$)")
_AUXILIARY: Final = (
    "(?:'s|'re|'d|is|are|was|were|did|does|do|will|would|has|have|had|can|could|should|shall|am|must)"
)
_UNIT: Final = "(?:second|minute|hour|day|night|week|weekend|month|year|decade)s?"
_COSTS: Final = "(?:cost|pay|paid|spend|spent|charge|earn|owe|worth|save|saved|donate|donated|raise|raised)"
_UNIT_HINDI: Final = "(?:समय|दिन|घंटे|घण्टे|हफ्ते|महीने|साल|मिनट)"
_UNIT_ROMANISED: Final = "(?:samay|time|din|ghante|hafte|mahine|saal|minute)"

# Narrower forms stand before those that they are part of: "how long ago" before "how long".
_QUESTIONS: Final[tuple[tuple[ValueKind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(form))
    for kind, form in (
        (
            ValueKind.TIME,
            _any(
                r"\bhow long ago\b|\bhow (?:recently|soon)\b|\bsince when\b",
                rf"\bhow many {_UNIT} ago\b",
                r"\b(?:what|which) (?:time|date|day|month|year|weekday|week)\b",
                rf"^\W*when\b|\bwhen ?{_AUXILIARY}\b",
                r"कब|कितने बजे|किस (?:दिन|तारीख|महीने|साल)",
                r"\bkab\b|\bkitne baje\b|\bkis (?:din|tarikh|tareekh|mahine|saal)\b",
                "什么时候|什麼時候|何时|何時|几点|幾點|哪天|哪一天|哪年|哪一年|几号|幾號|几月|幾月",
                "متى|كم الساعة|أي (?:يوم|ساعة|سنة|عام|شهر)",
            ),
        ),
        (
            ValueKind.AMOUNT,
            _any(
                rf"\bhow much (?:money|cash)\b|\bhow much {_AUXILIARY}\b.*\b{_COSTS}\b",
                r"\bhow (?:expensive|costly)\b",
                r"\bwhat(?:'s| is| was| are| were) (?:the |his |her |their |my |your |our )?"
                r"(?:\w+ ){0,2}(?:price|cost|fee|rent|salary|budget|fare|wage|bill)\b",
                "कितने (?:पैसे|रुपये|रुपए|का|की)|क्या (?:दाम|कीमत)",
                r"\bkitne (?:paise|paisa|rupaye|rupay|rupees|ka|ki)\b",
                "多少钱|多少錢|什么价|什麼價|بكم|كم (?:سعر|ثمن|يكلف|تكلف|التكلفة)",
            ),
        ),
        (
            ValueKind.DURATION,
            _any(
                rf"\bhow long\b|\bhow many {_UNIT}\b|\bhow much time\b",
                rf"कितनी देर|कितने {_UNIT_HINDI}",
                rf"\bkitni der\b|\bkitne {_UNIT_ROMANISED}\b",
                "多久|多长时间|多長時間|[几幾](?:天|年|小时|小時|个月|個月|个星期|周|週|分钟|分鐘)",
                "كم (?:من الوقت|يوما|يوم|ساعة|شهرا|شهر|سنة|عاما|أسبوع|دقيقة)|كم المدة",
            ),
        ),
        (
            ValueKind.NUMBER,
            _any(
                r"\bhow (?:many|much|old|often|far|tall|big|heavy|large|high|deep|fast)\b",
                r"\bwhat (?:number|percentage|proportion|fraction|age|size)\b",
                r"\b(?:phone|house|room|flight) number\b",
                r"कितन[ाेी]|\bkitn[aei]\b|多少|几|幾|多大|\bكم\b",
            ),
        ),
    )
)

_NUMBER_WORD: Final = _any(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?"
    r"|millions?|billions?|dozens?|couple|once|twice|thrice|several|teen|chaar|paanch|das|sau|hazaar|lakh)\b",
    "(?<!\\w)(?:एक|दो|तीन|चार|पाँच|पांच|छह|सात|आठ|नौ|दस|सौ|हज़ार|हजार|लाख)(?!\\w)",
    "[一二两兩三四五六七八九十百千万萬]",
    r"\b(?:واحد|اثنان|اثنين|ثلاثة?|أربعة?|خمسة?|ستة?|سبعة?|ثماني?ة?|تسعة?|عشرة?|مئة|مائة|ألف)\b",
)
_NUMBER: Final = _any(r"\d", _NUMBER_WORD)
_FREQUENCY: Final = r"\b(?:every|daily|weekly|monthly|yearly|always|rarely|seldom)\b"
_MONTH: Final = (
    "(?:january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_SPAN: Final = "(?:night|day|week|weekend|month|year|summer|winter|spring|autumn|fall)"

_VALUES: Final = MappingProxyType(
    {
        ValueKind.TIME: re.compile(
            _any(
                r"\d{1,2}:\d{2}|\d{1,2} ?(?:am|pm|a\.m|p\.m|o'clock|baje)\b",
                r"\d{1,2} ?(?:बजे|[点點时時月日号號年])",
                r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\b(?:1[5-9]|20)\d{2}s?\b",
                r"\b\d{1,2}(?:st|nd|rd|th)\b",
                # "may" and "march" are months only beside what tells so.
                rf"\b(?!may\b|march\b){_MONTH}\b|\b{_MONTH} \d|\b(?:in|of|last|next|this|since) {_MONTH}\b",
                r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|(?:星期|周|週)[一二三四五六日天]",
                r"\b(?:today|tonight|yesterday|tomorrow|noon|midnight|weekend)\b|\bago\b",
                rf"\b(?:last|next|this|past|previous|following|other) (?:\w+ )?{_SPAN}s?\b",
                r"आज|कल|परसों|\b(?:aaj|kal|parso)\b|今天|昨天|明天|اليوم|أمس|غدا",
            )
        ),
        ValueKind.AMOUNT: re.compile(
            _any(
                r"[$€£¥₹]|\b(?:dollar|euro|pound|cent|rupee|yen|yuan|buck|grand|usd|eur|inr|gbp|rs)s?\b",
                r"\b(?:rupaye|rupay|paise|paisa)\b|रुपय|रुपए|पैसे|[元]|块钱|塊錢|دولار|ريال|درهم|جنيه|دينار",
            )
        ),
        ValueKind.DURATION: re.compile(
            _any(
                # The number and its unit, with at most a word between them: "three long years".
                rf"(?:{_NUMBER}|\b(?:an?|one|few|half|many|whole)\b)[- ]?(?:\w+[- ])?{_UNIT}\b",
                rf"\b(?:all|whole) {_UNIT}\b|\bsince\b|\bfor (?:ages|{_UNIT})\b",
                rf"(?:{_NUMBER})\s?(?:{_UNIT_HINDI}|\b{_UNIT_ROMANISED}\b)",
                "[\\d一二两兩三四五六七八九十百半](?:多)?(?:天|年|小时|小時|个月|個月|个星期|周|週|分钟|分鐘)",
                "يومين|ساعتين|شهرين|سنتين|عامين|أسبوعين",
                rf"(?:{_NUMBER}) (?:يوم|أيام|ساع|شهر|أشهر|سن|عام|أعوام|أسبوع|أسابيع|دقيق|دقائق)",
            )
        ),
        ValueKind.NUMBER: re.compile(_any(_NUMBER, _FREQUENCY)),
    }
)
