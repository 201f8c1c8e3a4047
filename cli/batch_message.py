"""A batch of lines as the server takes it, with the vectors that it can use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precall.cli.failure import CommandFailed
from precall.cli.memory_file import MemoryLine
from precall.client import ClientOptions, convert
from precall.client.methods import Method
from precall.client.transport import Transport
from precall.proto import common_pb2, embedding_pb2, memory_pb2

_GET_MODEL = Method("EmbeddingService/GetModel", embedding_pb2.GetModelRequest, embedding_pb2.ModelCard)


@dataclass(frozen=True, slots=True)
class UsableVectors:
    """Those that the model with this fingerprint made; ``of_other_models`` counts the rest of a file's."""

    fingerprint: str
    of_other_models: int

    def of(self, line: MemoryLine) -> common_pb2.Vectors | None:
        vector = line.fields.vector
        if vector is None or vector.model_fingerprint != self.fingerprint:
            return None
        return common_pb2.Vectors(
            data=vector.content,
            count=1,
            dimension=vector.dimension,
            format=common_pb2.VECTOR_FORMAT_FLOAT16,
            model_fingerprint=self.fingerprint,
        )


async def usable_vectors(
    transport: Transport, options: ClientOptions, lines: Sequence[MemoryLine]
) -> UsableVectors:
    """Raises CommandFailed for the first line whose vector is of the server's model but not of its length."""
    if all(line.fields.vector is None for line in lines):
        return UsableVectors("", 0)
    card = await transport.call(
        _GET_MODEL, embedding_pb2.GetModelRequest(), deadline_seconds=options.write_deadline_seconds
    )
    others = 0
    for line in lines:
        vector = line.fields.vector
        if vector is not None and vector.model_fingerprint != card.fingerprint:
            others += 1
        elif vector is not None and vector.dimension != card.dimension:
            raise CommandFailed(
                f"nothing was written: line {line.number}: its vector has {vector.dimension} elements, "
                f"the model's have {card.dimension}"
            )
    return UsableVectors(card.fingerprint, others)


def batch_message(
    scope: Mapping[str, str],
    lines: Sequence[MemoryLine],
    ids: Sequence[str],
    *,
    request_id: str,
    truncate: bool,
    usable: UsableVectors,
) -> memory_pb2.WriteMemoriesRequest:
    """``ids`` are for the lines that name none. Raises the client's InvalidInput."""
    drafts = [line.fields.draft(memory_id) for line, memory_id in zip(lines, ids, strict=True)]
    memories = convert.drafts_to_wire(drafts, convert.scope_to_wire(scope))
    for line, memory in zip(lines, memories, strict=True):
        vector = usable.of(line)
        if vector is not None:
            memory.vector.CopyFrom(vector)
    return memory_pb2.WriteMemoriesRequest(memories=memories, request_id=request_id, truncate=truncate)
