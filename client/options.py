"""How a client behaves; checked when it is made."""

import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from precall.client.errors import ConfigurationError


class LocalEncoding(Enum):
    """Whether queries are embedded in this process."""

    AUTO = "auto"  # when the extra `precall[local]` is installed
    REQUIRED = "required"  # fail at start when it is not
    OFF = "off"  # never: every read asks the server


def default_cache_directory() -> Path:
    """``$XDG_CACHE_HOME/precall`` or ``~/.cache/precall``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "precall"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Raises ConfigurationError when a value is out of its range.

    ``keepalive_time_ms`` must not be shorter than what the server permits, or it hangs up.
    ``warm_pause_ms``: a partial turn that has stood for so long is embedded before it is asked for.
    ``max_bytes`` bounds one session's cache in bytes as sent (vectors are kept at twice that).
    ``live_check_share``: so many of the reads that a cache answers by itself, without being complete, are
    compared with the server's answer afterwards, in the background, at most one a second; 0: none.
    ``live_wrong_bar``: above this share of wrong ones among the last 200 that were checked the cache is not
    trusted by itself until it is better again (``Strictness``).
    ``encoder_threads``: a second one gains little on one short query, and on busy cores it doubles the P95.
    """

    read_deadline_ms: float = 300.0
    write_deadline_seconds: float = 30.0
    observe_deadline_seconds: float = 5.0
    close_deadline_seconds: float = 2.0
    cache_directory: Path = field(default_factory=default_cache_directory)
    local_encoding: LocalEncoding = LocalEncoding.AUTO
    encoder_threads: int = 1
    encoded_texts: int = 512
    warm_pause_ms: float = 150.0
    max_items: int = 2048
    max_bytes: int = 16 * 1024 * 1024
    max_pending_observations: int = 256
    max_pending_reports: int = 512
    report_interval_seconds: float = 2.0
    max_message_bytes: int = 64 * 1024 * 1024
    live_check_share: float = 0.01
    live_wrong_bar: float = 0.02
    keepalive_time_ms: int = 30_000
    keepalive_timeout_ms: int = 10_000
    reconnect_initial_seconds: float = 0.1
    reconnect_maximum_seconds: float = 3.0

    def __post_init__(self) -> None:
        if self.local_encoding not in tuple(LocalEncoding):
            choices = ", ".join(f"LocalEncoding.{choice.name}" for choice in LocalEncoding)
            raise ConfigurationError(f"local_encoding is {self.local_encoding!r}, use one of {choices}")
        if not self.read_deadline_ms >= 0:
            raise ConfigurationError(f"read_deadline_ms is {self.read_deadline_ms}, it must be 0 or more")
        for name in ("live_check_share", "live_wrong_bar"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}, it must lie between 0 and 1")
        for name in (
            "write_deadline_seconds",
            "observe_deadline_seconds",
            "close_deadline_seconds",
            "encoder_threads",
            "encoded_texts",
            "warm_pause_ms",
            "max_items",
            "max_bytes",
            "max_pending_observations",
            "max_pending_reports",
            "report_interval_seconds",
            "max_message_bytes",
            "keepalive_time_ms",
            "keepalive_timeout_ms",
            "reconnect_initial_seconds",
            "reconnect_maximum_seconds",
        ):
            if not getattr(self, name) > 0:  # NaN fails this too
                raise ConfigurationError(f"{name} is {getattr(self, name)}, it must be positive")
        if self.reconnect_maximum_seconds < self.reconnect_initial_seconds:
            raise ConfigurationError("reconnect_maximum_seconds is shorter than reconnect_initial_seconds")
