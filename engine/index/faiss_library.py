"""FAISS as it is: its stubs know the C++ side alone, and not what its Python modules add to it."""

from typing import Any


def faiss_library() -> Any:
    import faiss

    return faiss
