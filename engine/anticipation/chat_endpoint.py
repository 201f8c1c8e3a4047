"""A language model behind an OpenAI-compatible endpoint: `POST {url}/chat/completions`."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from precall.engine.errors import ConfigurationError, DeadlineExceeded, ModelUnavailable

_MAX_ANSWER_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class ChatEndpointSettings:
    """``url``: up to and without ``/chat/completions``. ``key``: sent as a bearer token; empty: none.

    ``timeout_seconds``: of a whole call. ``calls_at_once``: further ones wait for their turn.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout_seconds: float = 2.0
    max_tokens: int = 256
    calls_at_once: int = 8

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigurationError(f"the language model's url must begin with http(s)://, not {self.url!r}")
        if not self.model:
            raise ConfigurationError(
                "an endpoint needs to be told which of its models is meant: name a model"
            )
        if self.timeout_seconds <= 0:
            raise ConfigurationError(f"timeout_seconds must be above 0, it is {self.timeout_seconds}")


class ChatEndpoint:
    """Calls go to the configured url and nowhere else: neither redirects nor proxies of the environment are
    followed. Only one event loop may use it.
    """

    def __init__(self, settings: ChatEndpointSettings) -> None:
        """Raises ConfigurationError where no HTTP client is installed."""
        try:
            import httpx2
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "a language model needs an HTTP client: pip install 'precall[server]'"
            ) from error
        self._settings = settings
        self._client = httpx2.AsyncClient(timeout=None, trust_env=False)  # a whole call has its own limit
        self._turns = asyncio.Semaphore(settings.calls_at_once)

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        """What the model answers to these ``{"role": …, "content": …}``.

        Raises DeadlineExceeded, and ModelUnavailable for an endpoint that is not there, or answers with an
        error or with what is no answer.
        """
        settings = self._settings
        try:
            async with self._turns, asyncio.timeout(settings.timeout_seconds):
                return _content(await self._post(messages))
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"the language model took over {settings.timeout_seconds} s to answer"
            ) from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, messages: Sequence[Mapping[str, str]]) -> bytes:
        import httpx2

        settings = self._settings
        body = {
            "model": settings.model,
            "messages": list(messages),
            "max_tokens": settings.max_tokens,
            "stream": False,
        }
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        url = f"{settings.url.rstrip('/')}/chat/completions"
        answer = bytearray()
        try:
            async with self._client.stream("POST", url, json=body, headers=headers) as response:
                if response.status_code != httpx2.codes.OK:
                    raise ModelUnavailable(f"the language model answered HTTP {response.status_code}")
                async for chunk in response.aiter_bytes():
                    answer += chunk
                    if len(answer) > _MAX_ANSWER_BYTES:
                        raise ModelUnavailable(f"the language model answered over {_MAX_ANSWER_BYTES} bytes")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ModelUnavailable(f"the language model cannot be asked: {type(error).__name__}") from error
        return bytes(answer)


def _content(answer: bytes) -> str:
    """The text of the first choice. Raises ModelUnavailable."""
    try:
        document: Any = json.loads(answer)
        content = document["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ModelUnavailable("the language model answered with no chat completion") from error
    if not isinstance(content, str):
        raise ModelUnavailable("the language model answered without a text")
    return content
