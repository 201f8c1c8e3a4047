"""Pairs as the late interaction reads them: what is compared, and how much each token of the query counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.late_interaction_weights import word_weights
from precall.engine.encoding.reranker import RerankerCard
from precall.engine.errors import InvalidInput, ModelUnavailable, NotSupported, TextTooLong

if TYPE_CHECKING:
    from tokenizers import Encoding

_FRAME_TOKENS = 3
"""[CLS] query [SEP] document [SEP]."""

_QUERY_STEP = 64
"""A document is cut as if the query had a multiple of so many tokens: what is left of it is then mostly the
same beside another query, and goes through the model once for both. It costs a long document 63 tokens of
its end at most.
"""


@dataclass(frozen=True, slots=True)
class LateInteractionPair(TokenizedText):
    """``query_ids`` and ``document_ids``: int64, each in its own [CLS] and [SEP], for each goes through the
    model alone. ``query_weights``: float32, shape ``(len(query_ids) - 2,)``, sum 1. ``token_ids`` is the pair
    in one piece, which only counts.
    """

    query_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    query_weights: NDArray[np.float32]


class LateInteractionPairs:
    """The tokenizer's half of the reranker. Thread-safe."""

    def __init__(self, tokenizer: Path, card: RerankerCard) -> None:
        """``tokenizer`` neither pads nor truncates. Raises ``ModelUnavailable`` for a bad file."""
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # the library raises nothing narrower
            raise ModelUnavailable(
                f"the tokenizer {tokenizer} cannot be loaded: delete its folder, and the next start "
                "exports it again"
            ) from error
        # What looks like a special token within a text is only text.
        self._tokenizer.encode_special_tokens = True
        self._card = card

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> LateInteractionPair:
        """As ``Reranker.tokenize``; ``term_weights`` as ``word_weights`` takes them.

        ``NotSupported`` for an instruction, which this model has no ear for.
        """
        if instruction is not None:
            raise NotSupported(
                f"{self._card.name} takes no instruction: leave it unset, or run a Qwen3-Reranker model"
            )
        if not query.strip() or not document.strip():
            raise InvalidInput("the query or the document is empty or only white space: leave it out")
        question, answer = self._encode(query, document)
        question_ids, answer_ids = (np.array(each.ids, dtype=np.int64) for each in (question, answer))
        opening, closing = question_ids[:1], question_ids[-1:]
        asked, told = question_ids[1:-1], answer_ids[1:-1]
        if not len(asked) or not len(told):
            raise InvalidInput(
                "the query or the document has no character that the model knows (only invisible ones): "
                "leave it out"
            )
        given = len(asked) + len(told) + _FRAME_TOKENS
        told = told[: self._room(len(asked), given, truncate=truncate)]
        return LateInteractionPair(
            token_ids=np.concatenate([opening, asked, closing, told, closing]),
            usage=TokenUsage(given, len(asked) + len(told) + _FRAME_TOKENS),
            query_ids=question_ids,
            document_ids=np.concatenate([opening, told, closing]),
            query_weights=_token_weights(query, question, term_weights),
        )

    def _encode(self, query: str, document: str) -> "tuple[Encoding, Encoding]":
        try:
            # ``encode_batch`` lets go of Python's global lock where ``encode`` keeps it.
            question, answer = self._tokenizer.encode_batch([query, document])
        except (UnicodeEncodeError, TypeError) as error:
            raise InvalidInput(
                "the text is not valid Unicode (it has a lone surrogate): decode it with errors='replace'"
            ) from error
        return question, answer

    def _room(self, asked: int, given: int, *, truncate: bool) -> int:
        """Tokens that the document may keep. Raises ``TextTooLong``."""
        limit = self._card.max_tokens
        room = limit - _FRAME_TOKENS - asked
        if given <= limit:
            return room
        metadata = {"tokens": str(given), "limit": str(limit)}
        if not truncate:
            raise TextTooLong(
                f"query and document have {given} tokens together and {self._card.name} takes {limit}: "
                "shorten the document, or allow truncation",
                metadata=metadata,
            )
        if room < 1:
            raise TextTooLong(
                f"the query alone leaves no room for a document within the {limit} tokens of "
                f"{self._card.name}: shorten the query",
                metadata=metadata,
            )
        stepped = limit - _FRAME_TOKENS - _QUERY_STEP * -(-asked // _QUERY_STEP)
        return stepped if stepped >= 1 else room


def _token_weights(
    query: str, encoding: "Encoding", term_weights: Mapping[str, float] | None
) -> NDArray[np.float32]:
    """A word's weight shared evenly by its tokens; all together 1."""
    word_of_token = np.array(encoding.word_ids[1:-1], dtype=np.int64)
    words = [_word(query, encoding, number) for number in range(int(word_of_token.max()) + 1)]
    tokens_of_word = np.bincount(word_of_token, minlength=len(words))
    shares = word_weights(words, term_weights) / np.maximum(tokens_of_word, 1)
    weights = shares[word_of_token].astype(np.float32)
    total = float(weights.sum())
    return (weights / total if total > 0 else np.full_like(weights, 1 / len(weights))).astype(np.float32)


def _word(query: str, encoding: "Encoding", number: int) -> str:
    """Empty for a word that the model's vocabulary made nothing of."""
    place = encoding.word_to_chars(number)
    return "" if place is None else query[place[0] : place[1]]
