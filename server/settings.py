"""The server's settings: flags win over the environment, that over a TOML file, that over the defaults."""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from precall.engine.anticipation.chat_endpoint import ChatEndpointSettings
from precall.engine.anticipation.foreseen import ForeseenSettings
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.encoding.choice import DEFAULT_MODEL
from precall.engine.engine import EngineSettings
from precall.engine.errors import ConfigurationError
from precall.engine.memory.registry import OPEN_FILES, TENANTS_FOLDER
from precall.engine.residency import MEGABYTE, ResidencySettings
from precall.engine.retrieval.accurate import DEFAULT_CANDIDATES
from precall.server.logging import LogFormat, LogLevel

ENVIRONMENT_PREFIX: Final = "PRECALL_"
_OF_OTHER_COMMANDS: Final = frozenset({"PRECALL_TARGET", "PRECALL_API_KEY"})
"""What the command line's other parts read: no mistake beside a server."""
_OF_KUBERNETES: Final = re.compile(r"PRECALL(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP)(_\w+)?))")
"""What Kubernetes sets in every container beside a service whose name begins with `precall`."""
Port = Annotated[int, Field(ge=0, le=65_535)]


class ServerSettings(BaseModel):
    """Times in seconds. Port 0 lets the system choose one."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    data_dir: Path = Field(Path("precall-data"), description="Folder of the tenants' files and the API keys.")
    host: str = Field("127.0.0.1", min_length=1, description="Address that agents connect to.")
    port: Port = Field(50_051, description="Port that agents connect to.")
    metrics_host: str = Field("127.0.0.1", min_length=1, description="Address of metrics and health (HTTP).")
    metrics_port: Port = Field(9_464, description="Port of metrics and health (HTTP).")
    model: str = Field(
        DEFAULT_MODEL,
        min_length=1,
        description="`minilm`, a name in the hub's cache like Qwen/Qwen3-Embedding-0.6B, or a folder.",
    )
    runtime: Literal["auto", "onnx", "torch", "vllm"] = Field(
        "auto", description="What computes the models: auto, onnx (MiniLM), torch or vllm (Qwen3)."
    )
    dimension: int = Field(0, ge=0, le=65_536, description="Length that vectors are cut to; 0: the model's.")
    query_task: str = Field(
        "",
        max_length=1_000,
        description="What queries are for, in one English sentence, on models that are told; empty: search.",
    )
    max_tokens: int = Field(0, ge=0, description="Longest text in tokens; 0: what the model takes.")
    next_model: str = Field(
        "",
        description="A second model, named like model, that tenants can be migrated to; empty: none.",
    )
    next_dimension: int = Field(0, ge=0, le=65_536, description="As dimension, of next_model.")
    next_query_task: str = Field("", max_length=1_000, description="As query_task, of next_model.")
    next_max_tokens: int = Field(0, ge=0, description="As max_tokens, of next_model.")
    reranker: str = Field(
        "",
        description="minilm, a folder, or a name in the hub's cache (Qwen/Qwen3-Reranker-0.6B); empty: none.",
    )
    reranker_max_tokens: int = Field(
        8_192, ge=0, description="Longest prompt of the reranker in tokens; 0: what it takes."
    )
    rerank_candidates: int = Field(
        DEFAULT_CANDIDATES, ge=1, le=1_000, description="Memories that the reranker reads for one search."
    )
    threads: int | None = Field(None, ge=1, le=256, description="Threads of a forward pass; unset: by CPUs.")
    cache_dir: Path | None = Field(None, description="Folder of exported models; unset: the user's cache.")
    light_encoder: bool = Field(
        True,
        description="Make an encoder for clients of a large model when the first one asks for it.",
    )
    heartbeat_seconds: float = Field(1.0, gt=0, le=60, description="Time between two heartbeats of a stream.")
    lease_seconds: float = Field(
        10.0,
        gt=0,
        le=600,
        description="How long a cache answers in an outage, and a delete waits at most.",
    )
    complete_below: int = Field(
        2_000, ge=0, le=4_096, description="A rung with at most so many memories is pushed whole."
    )
    foresight_url: str = Field(
        "",
        max_length=2_000,
        description="Base URL of an OpenAI-compatible endpoint, asked what will be asked; empty: none.",
    )
    foresight_model: str = Field("", max_length=500, description="The endpoint's model.")
    foresight_key: SecretStr | None = Field(None, description="The endpoint's key; unset: none.")
    foresight_seconds: float = Field(2.0, gt=0, le=60, description="Time that the endpoint is given.")
    foresight_questions: int = Field(4, ge=1, le=16, description="Most questions of an answer of it.")
    memory_budget_mb: int = Field(
        2_048, ge=1, description="MB of memories kept in memory; the others are read when they are wanted."
    )
    max_open_files: int = Field(
        OPEN_FILES, ge=1, le=100_000, description="Tenants whose files stay open while nobody uses them."
    )
    max_message_bytes: int = Field(
        64 * 1024 * 1024, ge=1024 * 1024, le=1024 * 1024 * 1024, description="Largest message, either way."
    )
    max_batch: int = Field(1_000, ge=1, le=10_000, description="Most texts or memories in one request.")
    max_concurrent_rpcs: int = Field(1_000, ge=1, description="Most calls in progress; streams not counted.")
    drain_seconds: float = Field(15.0, ge=0, le=600, description="Grace for calls in progress at the end.")
    probe_seconds: float = Field(5.0, gt=0, le=300, description="Time between two readiness probes.")
    log_level: LogLevel = Field("info", description="debug, info, warning or error.")
    log_format: LogFormat = Field("console", description="console or json.")
    admin_key: SecretStr | None = Field(None, description="A further admin key of the server.")
    ready_file: Path | None = Field(None, description="Written as JSON once the server answers.")

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] | None = None,
        config: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Settings from flags (None means not given), environment (default: the process's) and a TOML file.

        Raises ConfigurationError with one line that names the setting, its origin, and what it may be.
        """
        variables = os.environ if environment is None else environment
        sources: dict[str, Mapping[str, Any]] = {
            str(config): {} if config is None else _read_file(config),
            "the environment": {
                name: variables[ENVIRONMENT_PREFIX + name.upper()]
                for name in cls.model_fields
                if variables.get(ENVIRONMENT_PREFIX + name.upper())
            },
            "the command line": {name: value for name, value in (flags or {}).items() if value is not None},
        }
        values: dict[str, Any] = {}
        for origin, given in sources.items():
            try:
                # Each alone: a wrong value that another source overrides would lie in wait for its absence.
                cls(**given)
            except ValidationError as error:
                raise ConfigurationError(_explained(error, origin)) from None
            values |= given
        settings = cls(**values)
        _ = settings.engine_settings  # checks what concerns more than one setting
        settings._check_next_model()
        settings._check_foresight()
        return settings

    def _check_next_model(self) -> None:
        """Raises ConfigurationError for a setting of a second model where there is none."""
        for name in ("next_dimension", "next_query_task", "next_max_tokens"):
            if getattr(self, name) and not self.next_model:
                raise ConfigurationError(
                    f"setting {name} is of a second model: set next_model as well, or unset it"
                )

    def _check_foresight(self) -> None:
        """Raises ConfigurationError for a setting of a language model where there is none, or half of one."""
        for name in ("foresight_model", "foresight_key"):
            if getattr(self, name) and not self.foresight_url:
                raise ConfigurationError(
                    f"setting {name} is of a language model: set foresight_url as well, or unset it"
                )

    @property
    def _language_model(self) -> ChatEndpointSettings | None:
        """Raises ConfigurationError."""
        if not self.foresight_url:
            return None
        key = self.foresight_key.get_secret_value() if self.foresight_key is not None else ""
        try:
            return ChatEndpointSettings(
                self.foresight_url, self.foresight_model, key, timeout_seconds=self.foresight_seconds
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"foresight_url, foresight_model: {error.message}") from error

    @property
    def engine_settings(self) -> EngineSettings:
        """Raises ConfigurationError when settings contradict each other."""
        return EngineSettings(
            data_dir=self.data_dir / TENANTS_FOLDER,
            residency=ResidencySettings(
                budget_bytes=self.memory_budget_mb * MEGABYTE, open_files=self.max_open_files
            ),
            anticipation=AnticipationSettings(
                heartbeat_seconds=self.heartbeat_seconds,
                lease_seconds=self.lease_seconds,
                complete_below=self.complete_below,
                foreseen=ForeseenSettings(questions=self.foresight_questions),
                language_model=self._language_model,
            ),
        )


def unknown_variables(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Variables that look like settings and are none, each with the setting's that it resembles, or empty.

    They are no error: what else runs on the machine may have set them for itself.
    """
    known = [name.upper() for name in ServerSettings.model_fields]
    resembled: dict[str, str] = {}
    for variable in sorted(environment):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        foreign = variable in _OF_OTHER_COMMANDS or _OF_KUBERNETES.fullmatch(variable)
        if name != variable and name not in known and not foreign:
            nearest = difflib.get_close_matches(name, known, n=1)
            resembled[variable] = ENVIRONMENT_PREFIX + nearest[0] if nearest else ""
    return resembled


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"the settings file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOML and UTF-8 faults alike
        raise ConfigurationError(f"the settings file {path} is no TOML: {error}") from error


def _explained(error: ValidationError, origin: str) -> str:
    """One line on the first fault. The value is left out: it may be a secret."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        known = ", ".join(ServerSettings.model_fields)
        return f"unknown setting {name} in {origin}; the settings are: {known}"
    field = ServerSettings.model_fields[name]
    message = str(fault["msg"])
    return f"setting {name} in {origin}: {message[0].lower()}{message[1:]} ({field.description})"
