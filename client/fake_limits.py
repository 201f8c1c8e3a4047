"""What a server refuses of a memory for its size; the real client leaves that to the server."""

from typing import Final

from precall.client.errors import InvalidInput
from precall.client.memory import MemoryDraft

MAX_TEXT_CHARACTERS: Final = 100_000
MAX_KEY_CHARACTERS: Final = 512
MAX_METADATA_ENTRIES: Final = 64
MAX_METADATA_CHARACTERS: Final = 4_096
MAX_QUESTIONS: Final = 32
MAX_QUESTION_CHARACTERS: Final = 2_000
MAX_QUESTIONS_CHARACTERS: Final = 16_000
MAX_SOURCE_CHARACTERS: Final = 512


def check_limits(draft: MemoryDraft) -> None:
    """Raises InvalidInput as the server does. How many tokens a model takes is not known here."""
    source = draft.source
    sizes = {
        "text": (len(draft.text), MAX_TEXT_CHARACTERS),
        "key": (len(draft.key), MAX_KEY_CHARACTERS),
        "questions": (len(draft.questions), MAX_QUESTIONS),
        "a question": (max(map(len, draft.questions), default=0), MAX_QUESTION_CHARACTERS),
        "all questions": (sum(map(len, draft.questions)), MAX_QUESTIONS_CHARACTERS),
        "metadata entries": (len(draft.metadata), MAX_METADATA_ENTRIES),
        "metadata": (sum(len(k) + len(v) for k, v in draft.metadata.items()), MAX_METADATA_CHARACTERS),
        "source": (
            max(len(source.conversation_id), len(source.turn_id), len(source.uri)),
            MAX_SOURCE_CHARACTERS,
        ),
    }
    for name, (size, most) in sizes.items():
        if size > most:
            raise InvalidInput(f"{name}: {size}, at most {most} are taken")
    if draft.valid_from and draft.valid_until and draft.valid_until <= draft.valid_from:
        raise InvalidInput("valid_until must be after valid_from")
