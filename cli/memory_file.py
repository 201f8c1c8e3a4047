"""A file of memories, a JSON object a line: read and checked whole before anything is sent."""

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
)

from precall.cli.failure import CommandFailed
from precall.cli.line_checks import LineChecks
from precall.cli.line_vector import LineVector
from precall.client import InvalidInput, MemoryDraft, MemorySource
from precall.engine import errors as engine_errors

MAX_FAULTS_SHOWN = 20

_NOT_SAID = ("vector", "stored")
"""What is no part of the memory: two lines that differ in it alone say the same."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class SourceFields(BaseModel):
    """Where a memory came from."""

    model_config = ConfigDict(extra="forbid", strict=True)

    conversation_id: str = ""
    turn_id: str = ""
    uri: str = ""
    memory_ids: list[str] = []


class MemoryFields(BaseModel):
    """What a line may hold; how much of it is for ``LineChecks``. Moments are ISO 8601 with a time zone."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    scope: dict[str, str] | None = None
    kind: Literal["fact", "preference", "episode", "emotion", "event", "document"] = "fact"
    key: str = ""
    id: str = ""
    confidence: Share | None = None
    importance: Share | None = None
    event_time: Annotated[AwareDatetime | None, Field(strict=False)] = None
    said_time: Annotated[AwareDatetime | None, Field(strict=False)] = None
    valid_from: Annotated[AwareDatetime | None, Field(strict=False)] = None
    valid_until: Annotated[AwareDatetime | None, Field(strict=False)] = None
    expires_at: Annotated[AwareDatetime | None, Field(strict=False)] = None
    source: SourceFields = SourceFields()
    questions: list[str] = []
    metadata: dict[str, str] = {}
    pinned: bool = False
    vector: LineVector | None = None
    stored: dict[str, JsonValue] | None = None
    """What the server made of it where it was exported; the one that it is written to makes its own."""

    @field_validator("text")
    @classmethod
    def _has_content(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("is empty")
        if all(map(_is_invisible, text)):
            raise ValueError("holds only invisible characters")
        return text

    def draft(self, memory_id: str) -> MemoryDraft:
        """As the client writes it; ``memory_id`` is used where the line names none."""
        return MemoryDraft(
            **self.model_dump(exclude={"scope", "source", "id", "questions", *_NOT_SAID}),
            id=self.id or memory_id,
            questions=tuple(self.questions),
            source=MemorySource(
                conversation_id=self.source.conversation_id,
                turn_id=self.source.turn_id,
                uri=self.source.uri,
                memory_ids=tuple(self.source.memory_ids),
            ),
        )


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """One checked line. ``digest`` names its content and scope, and which repetition of them it is."""

    number: int
    scope: Mapping[str, str]
    fields: MemoryFields
    digest: str


def read_memory_file(path: Path, default_scope: Mapping[str, str]) -> Sequence[MemoryLine]:
    """All lines, each checked. Raises CommandFailed naming every bad line by its number.

    Empty lines are passed over. ``default_scope`` is that of the lines that name none.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    lines: list[MemoryLine] = []
    faults: list[str] = []
    seen: dict[str, int] = {}
    checks = LineChecks()
    for number, text in _numbered(content):
        try:
            fields = MemoryFields.model_validate_json(text)
        except ValidationError as error:
            faults.append(f"line {number}: {_fault(error)}")
            continue
        scope = fields.scope if fields.scope is not None else default_scope
        if not scope:
            faults.append(f"line {number}: it names no scope, and there is no --scope")
            continue
        try:
            checks.check(number, scope, fields.draft(""))
        except (InvalidInput, engine_errors.InvalidInput) as error:
            faults.append(f"line {number}: {error.message}")
            continue
        content_digest = _digest(scope, fields)
        seen[content_digest] = repetition = seen.get(content_digest, 0) + 1
        lines.append(MemoryLine(number, scope, fields, f"{content_digest}:{repetition}"))
    if faults:
        shown = faults[:MAX_FAULTS_SHOWN]
        more = f"; and {len(faults) - len(shown)} more" if len(faults) > len(shown) else ""
        raise CommandFailed(f"nothing was written, {path} has bad lines: {'; '.join(shown)}{more}")
    if not lines:
        raise CommandFailed(f"{path} holds no memories")
    return lines


def _is_invisible(character: str) -> bool:
    """White space, a control or format character, or a mark that stands on another character."""
    return unicodedata.category(character)[0] in "ZC" or unicodedata.category(character) == "Mn"


def _numbered(content: str) -> Iterator[tuple[int, str]]:
    """Lines from 1, cut at line feeds alone: JSON strings may hold other line separators."""
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield number, line


def _fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "json_invalid":
        detail = str(fault["msg"]).removeprefix("Invalid JSON: ").replace(" line 1", "")
        return f"it is no JSON object: {detail}"
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        if where in SourceFields.model_fields:
            return f'{where}: put it into "source", as in "source": {{"{where}": ...}}'
        return f"{where}: there is no such field; the fields are {', '.join(MemoryFields.model_fields)}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _digest(scope: Mapping[str, str], fields: MemoryFields) -> str:
    whole = [sorted(scope.items()), fields.model_dump(mode="json", exclude={"scope", *_NOT_SAID})]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
