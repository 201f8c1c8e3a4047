"""What Qwen3-Embedding and Qwen3-Reranker were trained to see; the same for every engine that runs them.

Sources: the model cards of Qwen/Qwen3-Embedding-* and Qwen/Qwen3-Reranker-* (Apache-2.0).
"""

WEB_SEARCH_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
"""The task that the model cards of both families take when none is named."""

RERANKER_PREFIX = (
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
"""Opens every prompt of the reranker. Its ``<|...|>`` marks are special tokens, not text."""

RERANKER_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
"""Closes every prompt of the reranker: the empty thought makes the next token the answer."""

NO_TOKEN = "no"
YES_TOKEN = "yes"


def instructed(instruction: str, query: str) -> str:
    """A query to embed: no space after the second colon. Documents are embedded as they are."""
    return f"Instruct: {instruction}\nQuery:{query}"


def asked(instruction: str, query: str) -> str:
    """The user's turn of the reranker's prompt, up to where the document begins."""
    return f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: "
