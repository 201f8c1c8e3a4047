"""The machine and the versions that a measurement depends on; run it to print them beside the numbers."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "precall", "grpcio", "protobuf", "numpy", "faiss-cpu", "faiss-gpu", "onnxruntime", "tokenizers",
    "torch", "transformers", "uvloop", "vllm", "triton",
)  # fmt: skip
CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "amx_bf16", "amx_int8")


def describe_machine() -> dict[str, str]:
    """What a measurement depends on, name -> value."""
    model, flags = _processor()
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": model,
        "processor flags": " ".join(flag for flag in CPU_FLAGS if flag in flags) or "-",
        "cores": str(os.cpu_count()),
        "memory": f"{memory_gib:.1f} GiB",
        **{name: _version(name) for name in PACKAGES},
    }


def main() -> None:
    facts = describe_machine()
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")


def _processor() -> tuple[str, frozenset[str]]:
    """Model name and feature flags, as the kernel tells them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine(), frozenset()
    pairs = (line.partition(":") for line in text.splitlines())
    facts = {name.strip(): value.strip() for name, _, value in pairs}
    return facts.get("model name", platform.machine()), frozenset(facts.get("flags", "").split())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
