"""What is made of a memory once, for however many caches it is pushed to."""

from dataclasses import dataclass


@dataclass(slots=True)
class Derived:
    """Goes with the memory that it hangs on; None and empty: nobody has asked yet.

    ``size``: bytes in a client's process. ``stamp``: `precall.engine.anticipation.stamp`. ``wire``: as the
    edge sends it, of which the engine knows no more.
    """

    size: int | None = None
    stamp: int | None = None
    wire: bytes = b""
