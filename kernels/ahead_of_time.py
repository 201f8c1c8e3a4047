"""Kernels compiled for GPUs that are not here: what each takes of an SM, and whether anything spills.

python -P -m precall.kernels.ahead_of_time > kernels/builds.csv

Status 1 if one spills. Needs Triton and no GPU: its package brings NVIDIA's assembler, and tools that read
what it makes. Not under TRITON_INTERPRET, where nothing is compiled.
"""

import csv
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from precall.kernels.grouped_scan import PROGRAMS
from precall.kernels.grouped_scan_kernels import fold_launch, merge_launch, scan_launch
from precall.kernels.late_interaction import interaction_launch
from precall.kernels.launch import Launch
from precall.kernels.pooling import LAST_TOKEN, MEAN, pool_launch

TARGETS: Final = (80, 90, 100)
"""Compute capabilities: A100, H100 and H200, B200."""

_ALIGNMENT: Final = 16
_USAGE: Final = re.compile(r"REG:(\d+) STACK:(\d+)")
_SPILLED: Final = re.compile(r"\b(?:LDL|STL)\b")


@dataclass(frozen=True, slots=True)
class Build:
    """``registers``, ``stack_bytes``: of a thread. ``shared_bytes``: of a program. ``spills``:
    instructions that move a register to local memory or back.
    """

    kernel: str
    case: str
    target: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    spills: int
    threads: int


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    launch: Launch


def cases() -> list[Case]:
    """Widths of known models, with and without what a score space adds to them, and the extremes."""
    return [
        *(Case(f"width {width}", fold_launch(width, PROGRAMS)) for width in (400, 1_024, 4_096)),
        *(
            Case(f"width {width}, best {kept}", scan_launch(width, kept))
            for width, kept in (
                (16, 16),
                (384, 16),
                (400, 128),
                (1_024, 16),
                (1_024, 128),
                (1_040, 32),
                (4_096, 128),
            )
        ),
        *(Case(f"best {kept}", merge_launch(kept)) for kept in (16, 128)),
        Case("mean, 384, codes", pool_launch(384, 384, MEAN, coded=True, states=torch.float32)),
        Case("mean, 4096", pool_launch(4_096, 4_096, MEAN, coded=False, states=torch.bfloat16)),
        Case(
            "last token, 1024, codes",
            pool_launch(1_024, 1_024, LAST_TOKEN, coded=True, states=torch.bfloat16),
        ),
        Case(
            "last token, 4096 to 1000, codes",
            pool_launch(4_096, 1_000, LAST_TOKEN, coded=True, states=torch.float16),
        ),
        Case("384, float32", interaction_launch(384, torch.float32, frame=1)),
        Case("384, float16", interaction_launch(384, torch.float16, frame=1)),
        Case("128, float16", interaction_launch(128, torch.float16)),
    ]


def compile_all(targets: tuple[int, ...] = TARGETS) -> Iterator[Build]:
    """Compile every case for every target. Raises what Triton raises when one cannot be compiled."""
    for case in cases():
        for target in targets:
            yield _build(case, target)


def _build(case: Case, target: int) -> Build:
    launch = case.launch
    options = {"num_warps": launch.warps, "num_stages": launch.stages}
    compiled = triton.compile(_source(launch), target=GPUTarget("cuda", target, 32), options=options)
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(compiled.asm["cubin"])
        usage = _USAGE.search(_output(knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(cubin)))
        assembly = _output(knobs.nvidia.nvdisasm.path, "--print-code", str(cubin))
    if usage is None:
        raise RuntimeError("cuobjdump names no registers: another version of it writes them in another way")
    return Build(
        kernel=launch.function.__name__,
        case=case.name,
        target=target,
        registers=int(usage[1]),
        shared_bytes=int(compiled.metadata.shared),
        stack_bytes=int(usage[2]),
        spills=len(_SPILLED.findall(assembly)),
        threads=32 * launch.warps,
    )


def _source(launch: Launch) -> Any:
    types = iter(launch.types)
    signature, attributes = {}, {}
    for place, name in enumerate(launch.function.arg_names):
        signature[name] = "constexpr" if name in launch.constants else next(types)
        if signature[name].startswith("*"):
            attributes[(place,)] = [["tt.divisibility", _ALIGNMENT]]
    return ASTSource(launch.function, signature, launch.constants, attributes)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Print the builds as CSV; status 1 if one spills."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(field.name for field in fields(Build))
    spilled = False
    for build in compile_all():
        writer.writerow(astuple(build))
        sys.stdout.flush()
        spilled = spilled or build.spills > 0 or build.stack_bytes > 0
    return int(spilled)


if __name__ == "__main__":
    sys.exit(main())
