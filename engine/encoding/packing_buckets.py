"""The few sizes that small batches are rounded up to, so that each can be recorded once and replayed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PackingBuckets:
    """A recorded pass has a fixed number of tokens and of texts; what a batch lacks is padded.

    A size grows by half or less of itself beyond the smallest, so padding costs little where passes are
    short enough for the launching of kernels to matter.
    """

    tokens: tuple[int, ...] = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
    texts: int = 8
    """Texts of a batch at most, without the one that stands for the padding."""

    def __post_init__(self) -> None:
        assert self.tokens and list(self.tokens) == sorted(set(self.tokens)), "sizes must ascend"
        assert self.tokens[0] >= 1 and self.texts >= 1

    def choose(self, tokens: int, texts: int) -> int | None:
        """The smallest size with room for the batch; None if it is too large to be recorded."""
        if texts > self.texts:
            return None
        return next((size for size in self.tokens if size >= tokens), None)
