from precall.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TextRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_ROLE_UNSPECIFIED: _ClassVar[TextRole]
    TEXT_ROLE_QUERY: _ClassVar[TextRole]
    TEXT_ROLE_DOCUMENT: _ClassVar[TextRole]

class WorkClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORK_CLASS_UNSPECIFIED: _ClassVar[WorkClass]
    WORK_CLASS_CONVERSATION: _ClassVar[WorkClass]
    WORK_CLASS_PREFETCH: _ClassVar[WorkClass]
    WORK_CLASS_INGEST: _ClassVar[WorkClass]

class Pooling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POOLING_UNSPECIFIED: _ClassVar[Pooling]
    POOLING_MEAN: _ClassVar[Pooling]
    POOLING_LAST_TOKEN: _ClassVar[Pooling]
    POOLING_CLS: _ClassVar[Pooling]

class ClientEncoderFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLIENT_ENCODER_FORMAT_UNSPECIFIED: _ClassVar[ClientEncoderFormat]
    CLIENT_ENCODER_FORMAT_ONNX: _ClassVar[ClientEncoderFormat]
    CLIENT_ENCODER_FORMAT_TOKEN_TABLE: _ClassVar[ClientEncoderFormat]
    CLIENT_ENCODER_FORMAT_LEARNED_MAP: _ClassVar[ClientEncoderFormat]
TEXT_ROLE_UNSPECIFIED: TextRole
TEXT_ROLE_QUERY: TextRole
TEXT_ROLE_DOCUMENT: TextRole
WORK_CLASS_UNSPECIFIED: WorkClass
WORK_CLASS_CONVERSATION: WorkClass
WORK_CLASS_PREFETCH: WorkClass
WORK_CLASS_INGEST: WorkClass
POOLING_UNSPECIFIED: Pooling
POOLING_MEAN: Pooling
POOLING_LAST_TOKEN: Pooling
POOLING_CLS: Pooling
CLIENT_ENCODER_FORMAT_UNSPECIFIED: ClientEncoderFormat
CLIENT_ENCODER_FORMAT_ONNX: ClientEncoderFormat
CLIENT_ENCODER_FORMAT_TOKEN_TABLE: ClientEncoderFormat
CLIENT_ENCODER_FORMAT_LEARNED_MAP: ClientEncoderFormat

class EmbedRequest(_message.Message):
    __slots__ = ("texts", "role", "instruction", "dimension", "format", "truncate", "work_class", "model_fingerprint")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    WORK_CLASS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    role: TextRole
    instruction: str
    dimension: int
    format: _common_pb2.VectorFormat
    truncate: bool
    work_class: WorkClass
    model_fingerprint: str
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., role: _Optional[_Union[TextRole, str]] = ..., instruction: _Optional[str] = ..., dimension: _Optional[int] = ..., format: _Optional[_Union[_common_pb2.VectorFormat, str]] = ..., truncate: bool = ..., work_class: _Optional[_Union[WorkClass, str]] = ..., model_fingerprint: _Optional[str] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("vectors", "usage", "errors", "timings")
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    vectors: _common_pb2.Vectors
    usage: _containers.RepeatedCompositeFieldContainer[_common_pb2.TokenUsage]
    errors: _containers.RepeatedCompositeFieldContainer[_common_pb2.ItemError]
    timings: _containers.RepeatedCompositeFieldContainer[_common_pb2.StageTiming]
    def __init__(self, vectors: _Optional[_Union[_common_pb2.Vectors, _Mapping]] = ..., usage: _Optional[_Iterable[_Union[_common_pb2.TokenUsage, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[_common_pb2.ItemError, _Mapping]]] = ..., timings: _Optional[_Iterable[_Union[_common_pb2.StageTiming, _Mapping]]] = ...) -> None: ...

class RerankRequest(_message.Message):
    __slots__ = ("query", "documents", "instruction", "truncate", "model_fingerprint")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    query: str
    documents: _containers.RepeatedScalarFieldContainer[str]
    instruction: str
    truncate: bool
    model_fingerprint: str
    def __init__(self, query: _Optional[str] = ..., documents: _Optional[_Iterable[str]] = ..., instruction: _Optional[str] = ..., truncate: bool = ..., model_fingerprint: _Optional[str] = ...) -> None: ...

class RerankResponse(_message.Message):
    __slots__ = ("scores", "model_fingerprint", "usage", "errors", "timings")
    SCORES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    scores: bytes
    model_fingerprint: str
    usage: _containers.RepeatedCompositeFieldContainer[_common_pb2.TokenUsage]
    errors: _containers.RepeatedCompositeFieldContainer[_common_pb2.ItemError]
    timings: _containers.RepeatedCompositeFieldContainer[_common_pb2.StageTiming]
    def __init__(self, scores: _Optional[bytes] = ..., model_fingerprint: _Optional[str] = ..., usage: _Optional[_Iterable[_Union[_common_pb2.TokenUsage, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[_common_pb2.ItemError, _Mapping]]] = ..., timings: _Optional[_Iterable[_Union[_common_pb2.StageTiming, _Mapping]]] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ModelCard(_message.Message):
    __slots__ = ("name", "revision", "weights_sha256", "dimension", "max_tokens", "pooling", "normalized", "query_prompt", "document_prompt", "matryoshka_dimensions", "fingerprint", "runtime", "scripts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_SHA256_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    MATRYOSHKA_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    SCRIPTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    weights_sha256: str
    dimension: int
    max_tokens: int
    pooling: Pooling
    normalized: bool
    query_prompt: str
    document_prompt: str
    matryoshka_dimensions: _containers.RepeatedScalarFieldContainer[int]
    fingerprint: str
    runtime: str
    scripts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ..., weights_sha256: _Optional[str] = ..., dimension: _Optional[int] = ..., max_tokens: _Optional[int] = ..., pooling: _Optional[_Union[Pooling, str]] = ..., normalized: bool = ..., query_prompt: _Optional[str] = ..., document_prompt: _Optional[str] = ..., matryoshka_dimensions: _Optional[_Iterable[int]] = ..., fingerprint: _Optional[str] = ..., runtime: _Optional[str] = ..., scripts: _Optional[_Iterable[str]] = ...) -> None: ...

class GetClientEncoderRequest(_message.Message):
    __slots__ = ("model_fingerprint",)
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    model_fingerprint: str
    def __init__(self, model_fingerprint: _Optional[str] = ...) -> None: ...

class ClientEncoderChunk(_message.Message):
    __slots__ = ("manifest", "data")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    manifest: ClientEncoderManifest
    data: bytes
    def __init__(self, manifest: _Optional[_Union[ClientEncoderManifest, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class ClientEncoderManifest(_message.Message):
    __slots__ = ("model_fingerprint", "encoder_fingerprint", "format", "files", "dimension", "max_tokens", "query_prompt", "agreement", "scripts", "top_ten_overlap", "distance_error", "score_error")
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ENCODER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    SCRIPTS_FIELD_NUMBER: _ClassVar[int]
    TOP_TEN_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_ERROR_FIELD_NUMBER: _ClassVar[int]
    SCORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    model_fingerprint: str
    encoder_fingerprint: str
    format: ClientEncoderFormat
    files: _containers.RepeatedCompositeFieldContainer[ClientEncoderFile]
    dimension: int
    max_tokens: int
    query_prompt: str
    agreement: float
    scripts: _containers.RepeatedScalarFieldContainer[str]
    top_ten_overlap: float
    distance_error: float
    score_error: float
    def __init__(self, model_fingerprint: _Optional[str] = ..., encoder_fingerprint: _Optional[str] = ..., format: _Optional[_Union[ClientEncoderFormat, str]] = ..., files: _Optional[_Iterable[_Union[ClientEncoderFile, _Mapping]]] = ..., dimension: _Optional[int] = ..., max_tokens: _Optional[int] = ..., query_prompt: _Optional[str] = ..., agreement: _Optional[float] = ..., scripts: _Optional[_Iterable[str]] = ..., top_ten_overlap: _Optional[float] = ..., distance_error: _Optional[float] = ..., score_error: _Optional[float] = ...) -> None: ...

class ClientEncoderFile(_message.Message):
    __slots__ = ("name", "size_bytes", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    sha256: str
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...
