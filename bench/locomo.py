"""Conversations in the LoCoMo format: dated sessions of turns, and questions with the turns that answer."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

TURN_SPACING = timedelta(seconds=20)
SESSION_KEY = re.compile(r"session_(\d+)")
EVIDENCE_ID = re.compile(r"D(\d+):(\d+)")
SESSION_TIME_FORMAT = "%I:%M %p on %d %B, %Y"


class LocomoFormatError(ValueError):
    """A file is not a LoCoMo conversation; the message names the file and the place in it."""


class QuestionCategory(IntEnum):
    """Numbered as the published files number them."""

    MULTI_HOP = 1
    TEMPORAL = 2
    OPEN_DOMAIN = 3
    SINGLE_HOP = 4
    ADVERSARIAL = 5


@dataclass(frozen=True, slots=True)
class LocomoTurn:
    """One utterance. ``text`` ends with the caption of the photo that was shown, if any."""

    dia_id: str
    speaker: str
    text: str
    said_time: datetime
    session: int


@dataclass(frozen=True, slots=True)
class LocomoQuestion:
    """``evidence`` holds ids of turns that exist; it is empty where the file names none."""

    question: str
    answer: str | None
    category: QuestionCategory
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocomoConversation:
    """Turns in the order of their saying; their times strictly increase within a session."""

    id: str
    speakers: tuple[str, str]
    turns: tuple[LocomoTurn, ...]
    questions: tuple[LocomoQuestion, ...]


def load_conversation(path: Path | Traversable) -> LocomoConversation:
    """The conversation in a JSON file; its id is the file's name without the ending.

    Raises LocomoFormatError for what is not a LoCoMo file, OSError for what cannot be read.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise LocomoFormatError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise LocomoFormatError(f"{path}: expected an object with session_1, qa, ...")
    return _Reader(str(path), document).conversation(path.name.removesuffix(".json"))


def load_conversations(path: Path) -> tuple[LocomoConversation, ...]:
    """Every ``*.json`` of a folder ordered by their names' numbers, or the one file that ``path`` names."""
    if path.is_file():
        return (load_conversation(path),)
    if not path.is_dir():
        raise LocomoFormatError(f"{path}: no such file or folder")
    files = sorted(path.glob("*.json"), key=lambda file: (len(file.stem), file.stem))
    if not files:
        raise LocomoFormatError(f"{path}: holds no .json file")
    return tuple(load_conversation(file) for file in files)


def load_demo_conversation() -> LocomoConversation:
    """The short conversation that precall ships."""
    return load_conversation(resources.files("precall.bench").joinpath("demo_conversation.json"))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one document; ``file`` is for messages."""

    file: str
    document: Mapping[str, Any]

    def conversation(self, conversation_id: str) -> LocomoConversation:
        turns = self._turns()
        known_ids = frozenset(turn.dia_id for turn in turns)
        if len(known_ids) != len(turns):
            raise self._error("two turns have the same dia_id")
        entries = self._list(self.document, "qa", "")
        return LocomoConversation(
            id=conversation_id,
            speakers=(
                self._text(self.document, "speaker_a", ""),
                self._text(self.document, "speaker_b", ""),
            ),
            turns=turns,
            questions=tuple(
                self._question(entry, f"qa[{place}]", known_ids) for place, entry in enumerate(entries)
            ),
        )

    def _turns(self) -> tuple[LocomoTurn, ...]:
        matches = (SESSION_KEY.fullmatch(key) for key in self.document)
        sessions = sorted(int(match[1]) for match in matches if match)
        if not sessions:
            raise self._error("no session_1, session_2, ... in the file")
        return tuple(turn for session in sessions for turn in self._session(session))

    def _session(self, session: int) -> list[LocomoTurn]:
        key = f"session_{session}"
        began = self._session_time(f"{key}_date_time")
        return [
            self._turn(entry, f"{key}[{place}]", began + place * TURN_SPACING, session)
            for place, entry in enumerate(self._list(self.document, key, ""))
        ]

    def _session_time(self, key: str) -> datetime:
        written = self._text(self.document, key, "")
        try:
            return datetime.strptime(written, SESSION_TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError as error:
            raise self._error(f"{key}: {written!r} is not a time like '1:56 pm on 8 May, 2023'") from error

    def _turn(self, entry: Any, place: str, said_time: datetime, session: int) -> LocomoTurn:
        fields = self._object(entry, place)
        text = self._text(fields, "text", place)
        if fields.get("blip_caption"):
            text = f"{text} [photo: {self._text(fields, 'blip_caption', place)}]"
        return LocomoTurn(
            dia_id=self._text(fields, "dia_id", place),
            speaker=self._text(fields, "speaker", place),
            text=text,
            said_time=said_time,
            session=session,
        )

    def _question(self, entry: Any, place: str, known_ids: frozenset[str]) -> LocomoQuestion:
        fields = self._object(entry, place)
        answer = fields.get("answer")
        try:
            category = QuestionCategory(int(fields.get("category", 0)))
        except (TypeError, ValueError) as error:
            raise self._error(f"{place}: category must be 1 to 5, not {fields.get('category')!r}") from error
        return LocomoQuestion(
            question=self._text(fields, "question", place),
            answer=None if answer is None else str(answer),
            category=category,
            evidence=_evidence_ids(self._list(fields, "evidence", place), known_ids),
        )

    def _object(self, entry: Any, place: str) -> Mapping[str, Any]:
        if not isinstance(entry, dict):
            raise self._error(f"{place}: expected an object")
        return entry

    def _list(self, fields: Mapping[str, Any], key: str, place: str) -> list[Any]:
        value = fields.get(key)
        if not isinstance(value, list):
            raise self._error(f"{_at(place, key)}: expected a list")
        return value

    def _text(self, fields: Mapping[str, Any], key: str, place: str) -> str:
        value = fields.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self._error(f"{_at(place, key)}: expected a text that is not empty")
        return value

    def _error(self, message: str) -> LocomoFormatError:
        return LocomoFormatError(f"{self.file}: {message}")


def _at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _evidence_ids(fields: list[Any], known_ids: frozenset[str]) -> tuple[str, ...]:
    """The turns that the evidence names, each once.

    The published files pack several ids into one field, pad numbers with zeros and name turns that are not
    there; what names no turn is left out.
    """
    pairs = (pair for field in fields for pair in EVIDENCE_ID.findall(str(field)))
    named = (f"D{int(session)}:{int(turn)}" for session, turn in pairs)
    return tuple(dict.fromkeys(dia_id for dia_id in named if dia_id in known_ids))
