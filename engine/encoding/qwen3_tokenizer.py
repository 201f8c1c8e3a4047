"""Qwen's tokenizer, as the published models use it."""

from pathlib import Path

from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.errors import InvalidInput, ModelUnavailable

END_OF_TEXT = "<|endoftext|>"
"""Closes every embedded text; its state is the text's vector."""


class Qwen3Tokenizer:
    """Thread-safe. Neither pads nor truncates."""

    def __init__(self, path: Path, architecture: Qwen3Architecture, *, reads_special: bool = True) -> None:
        """``reads_special=False``: what looks like a special token within a text is only text.

        Raises ``ModelUnavailable`` if the file is damaged or knows more tokens than the model.
        """
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise ModelUnavailable(
                f"the tokenizer {path} cannot be loaded: download it again with the model"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = not reads_special
        tokens = self._tokenizer.get_vocab_size(with_added_tokens=True)
        if tokens > architecture.vocabulary:
            raise ModelUnavailable(
                f"the tokenizer {path} has {tokens} tokens and the model {architecture.vocabulary}: "
                "it belongs to another model"
            )
        self._path = path
        end = self.token(END_OF_TEXT)
        # The first release of the embedding models left closing the text to its users; later ones do it.
        self._closing = [] if self._tokenizer.encode("a").ids[-1] == end else [end]

    def token(self, text: str) -> int:
        """Id of a token that the model cannot do without. Raises ``ModelUnavailable`` if there is none."""
        token = self._tokenizer.token_to_id(text)
        if token is None:
            raise ModelUnavailable(f"the tokenizer {self._path} has no token {text!r}: it is not Qwen3's")
        return int(token)

    def closed(self, text: str) -> list[int]:
        """Ids of a text to embed, ``END_OF_TEXT`` at its end. Raises ``InvalidInput`` for broken Unicode."""
        return self._encode(text, add_special_tokens=True) + self._closing

    def ids(self, text: str) -> list[int]:
        """Ids of a part of a prompt; nothing is added. Raises as ``closed``."""
        return self._encode(text, add_special_tokens=False)

    def _encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)
        except (UnicodeEncodeError, TypeError) as error:
            raise InvalidInput(
                "the text is not valid Unicode (it has a lone surrogate): decode it with errors='replace'"
            ) from error
