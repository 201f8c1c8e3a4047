"""How work is cut into batches, and how much of it may wait."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from precall.engine.batching.work import WorkClass
from precall.engine.errors import ConfigurationError
from precall.engine.memory.memory import MAX_TEXT_CHARACTERS


@dataclass(frozen=True)
class BatchingSettings:
    """The defaults fit a processor, where time grows with tokens: a batch is what a conversation that comes
    in the middle of one must wait for. A GPU wants ``max_batch_tokens`` in the tens of thousands.
    """

    max_batch_tokens: int = 256
    """Padded tokens (count x longest) of a batch; a single longer text still goes, alone."""

    max_conversation_tokens: int | None = None
    """The same for the batches of CONVERSATION, which other conversations wait for; None: no less than the
    others'.
    """

    max_batch_items: int = 64

    max_waiting_tokens: int = 270_000
    """Tokens of one class that may wait; a request that would go over is refused whole. Each class has room
    of its own, so that a flood of one keeps nobody out of another.
    """

    tenant_share: float = 0.75
    """Most of a class's ``max_waiting_tokens`` and ``max_waiting_characters`` that one tenant may have."""

    max_waiting_characters: int = 8_000_000
    """Characters of one class that may wait for the tokenizer, or be in it, beside the event loop."""

    padded: bool = True
    """Whether the model computes every text at the length of the batch's longest. If not, a batch is cut by
    its real tokens and in fair order: like lengths bring nothing.
    """

    minimum_fill: float = 0.7
    """Least share of a batch's padded tokens that is real text."""

    look_ahead: int = 128
    """How many waiting texts, in fair order, a batch of like lengths is chosen from."""

    class_weights: Mapping[WorkClass, float] = field(
        default_factory=lambda: MappingProxyType(
            {WorkClass.CONVERSATION: 16.0, WorkClass.PREFETCH: 4.0, WorkClass.INGEST: 1.0}
        )
    )
    """Shares of the device's tokens when all classes have work waiting."""

    inline_texts: int = 4
    """Up to this many texts are tokenised on the event loop, more on a thread."""

    inline_characters: int = 2_000
    """Texts with more characters than this in all are tokenised on a thread, however few they are."""

    max_text_characters: int = MAX_TEXT_CHARACTERS
    """A longer text is refused before the tokenizer sees it, truncation allowed or not: counting its tokens,
    which whoever truncates is told, takes time that grows with it (2 s a million characters).
    """

    probe_seconds: float = 10.0
    """A probe not answered by then says that the device is dead."""

    @property
    def tenant_waiting_tokens(self) -> int:
        """Tokens of one tenant in one class that may wait, at least 1."""
        return max(int(self.max_waiting_tokens * self.tenant_share), 1)

    @property
    def tenant_waiting_characters(self) -> int:
        """Characters of one tenant in one class that may wait for the tokenizer, at least 1."""
        return max(int(self.max_waiting_characters * self.tenant_share), 1)

    def of(self, work_class: WorkClass) -> "BatchingSettings":
        """How batches of one class are cut."""
        if work_class is not WorkClass.CONVERSATION or self.max_conversation_tokens is None:
            return self
        return replace(self, max_batch_tokens=self.max_conversation_tokens)

    def __post_init__(self) -> None:
        if self.max_conversation_tokens is not None and self.max_conversation_tokens < 1:
            raise ConfigurationError(
                f"batching.max_conversation_tokens must be at least 1, not {self.max_conversation_tokens}"
            )
        for name in (
            "max_batch_tokens",
            "max_batch_items",
            "max_waiting_tokens",
            "max_waiting_characters",
            "look_ahead",
            "max_text_characters",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"batching.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("inline_texts", "inline_characters"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"batching.{name} must not be negative, not {getattr(self, name)}")
        if not 0.0 < self.tenant_share <= 1.0:
            raise ConfigurationError(f"batching.tenant_share must be above 0 to 1, not {self.tenant_share}")
        if not 0.0 <= self.minimum_fill <= 1.0:
            raise ConfigurationError(f"batching.minimum_fill must be from 0 to 1, not {self.minimum_fill}")
        if not self.probe_seconds > 0.0:
            raise ConfigurationError(f"batching.probe_seconds must be above 0, not {self.probe_seconds}")
        if set(self.class_weights) != set(WorkClass) or not all(w > 0 for w in self.class_weights.values()):
            names = ", ".join(work_class.value for work_class in WorkClass)
            raise ConfigurationError(f"batching.class_weights needs a weight above 0 for each of {names}")
