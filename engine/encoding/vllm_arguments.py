"""What vLLM is told about a Qwen3 model. Everything that could change a vector is said, nothing is left to
what else may lie in the model's folder.
"""

from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import Qwen3Files
from precall.engine.encoding.qwen3_settings import Qwen3Settings
from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.encoding.vllm_settings import VllmSettings
from precall.engine.encoding.vllm_worker import CacheClearing
from precall.engine.errors import ConfigurationError

_GPU_PASS_TOKENS = 16_384
_CPU_PASS_TOKENS = 2_048
_SEQUENCES = 1_024
"""Inputs of one pass at the most; short ones are bound by it, long ones by tokens."""

_CPU_BLOCK_TOKENS = 32
"""Tokens of a block of keys and values: vLLM's own choice of 128 wastes most of one on a short text."""

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def engine_arguments(
    library: VllmLibrary,
    files: Qwen3Files,
    architecture: Qwen3Architecture,
    settings: Qwen3Settings,
    vllm_settings: VllmSettings,
    *,
    max_tokens: int,
    hf_overrides: dict[str, object],
    share_prefixes: bool,
) -> dict[str, object]:
    """Arguments of ``AsyncEngineArgs``. Raises ``ConfigurationError`` for a cache below ``max_tokens``."""
    default_pass = _GPU_PASS_TOKENS if library.on_gpu else _CPU_PASS_TOKENS
    pass_tokens = settings.pass_tokens if settings.pass_tokens is not None else default_pass
    cache_tokens = vllm_settings.cache_tokens
    if cache_tokens is None:
        cache_tokens = max_tokens + pass_tokens
    if cache_tokens < max_tokens:
        raise ConfigurationError(
            f"vLLM cache_tokens {cache_tokens} cannot hold an input of the model's max_tokens {max_tokens}: "
            "raise the one or lower the other"
        )
    dtype = settings.dtype
    if dtype == "auto":
        dtype = "bfloat16" if library.on_gpu else "float32"
    arguments: dict[str, object] = {
        "model": str(files.folder),
        "runner": "pooling",
        "hf_overrides": hf_overrides,
        "pooler_config": {"pooling_type": "LAST", "use_activation": True},
        # Only the files whose digest is on the card; never code that lies beside them.
        "load_format": "safetensors",
        "trust_remote_code": False,
        "use_tqdm_on_load": False,
        "dtype": dtype,
        "max_model_len": max_tokens,
        "max_num_batched_tokens": pass_tokens,
        "max_num_seqs": min(_SEQUENCES, pass_tokens),
        "enable_chunked_prefill": True,
        "enable_prefix_caching": share_prefixes,
        "kv_cache_memory_bytes": _cache_bytes(architecture, cache_tokens, _BYTES[dtype]),
        # The cache has its size already; this is only what vLLM wants to see free before it starts.
        "gpu_memory_utilization": 0.05,
        "enforce_eager": vllm_settings.eager if vllm_settings.eager is not None else not library.on_gpu,
        "worker_extension_cls": f"{CacheClearing.__module__}.{CacheClearing.__qualname__}",
        "skip_tokenizer_init": True,
        "disable_log_stats": True,
    }
    if not library.on_gpu:
        arguments["block_size"] = _CPU_BLOCK_TOKENS
    return arguments


def _cache_bytes(architecture: Qwen3Architecture, tokens: int, bytes_per_number: int) -> int:
    """Keys and values of every layer."""
    return 2 * architecture.layers * architecture.key_width * bytes_per_number * tokens
