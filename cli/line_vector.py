"""The vector that a line of an export carries."""

import base64
import binascii
from functools import cached_property

from pydantic import BaseModel, ConfigDict, field_validator


class LineVector(BaseModel):
    """``float16``: little-endian elements in base64. It is used where the server's model is the one named."""

    model_config = ConfigDict(extra="forbid", strict=True)

    float16: str
    model_fingerprint: str

    @field_validator("float16")
    @classmethod
    def _is_a_vector(cls, text: str) -> str:
        import numpy as np

        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("is no base64") from error
        if not content or len(content) % 2:
            raise ValueError(f"has {len(content)} bytes, which are no float16 elements")
        elements = np.frombuffer(content, "<f2")
        if not np.isfinite(elements).all() or not elements.any():
            raise ValueError("is zero, or holds NaN or infinity")
        return text

    @cached_property
    def content(self) -> bytes:
        return base64.b64decode(self.float16)

    @property
    def dimension(self) -> int:
        return len(self.content) // 2
