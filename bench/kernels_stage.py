"""Where kernels are measured: a GPU and what it can do at best, or Triton's interpreter."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from precall.bench.results import Measurement, print_measurements

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class KernelStage:
    """``copy_gigabytes_a_second``: measured in this run, bytes read and bytes written both counted; None in
    the interpreter.
    """

    device: "torch.device"
    copy_gigabytes_a_second: float | None

    @classmethod
    def opened(cls, name: str) -> "KernelStage":
        """``name``: cuda or cpu, which is the interpreter. To be called before anything imports Triton."""
        if name == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
        import torch

        from precall.bench.gpu_ceilings import measure_ceilings

        device = torch.device(name)
        return cls(device, None if name == "cpu" else measure_ceilings(device).copy_gigabytes_a_second)

    @property
    def measures(self) -> bool:
        return self.copy_gigabytes_a_second is not None

    def figures(
        self,
        benchmark: str,
        case: str,
        call: Callable[[], object],
        moved_bytes: int,
        peers: dict[str, Callable[[], object]] | None = None,
    ) -> list[Measurement]:
        """Milliseconds of a call, the share of the copy bandwidth at which it moves the bytes that it has to
        move, and the time of what it is compared with. In the interpreter each call is made once.
        """
        from precall.bench.gpu_ceilings import best_seconds

        contenders = {"": call} | (peers or {})
        if self.copy_gigabytes_a_second is None:
            for contender in contenders.values():
                contender()
            return []
        seconds = {name: best_seconds(contender, self.device) for name, contender in contenders.items()}
        ours = seconds.pop("")
        share = moved_bytes / ours / 1e9 / self.copy_gigabytes_a_second
        found = [
            Measurement(benchmark, case, "time", ours * 1e3, "ms"),
            Measurement(benchmark, case, "share of copy bandwidth", share, ""),
        ]
        return found + [
            Measurement(benchmark, case, f"{name}, time", theirs * 1e3, "ms", name, theirs / ours)
            for name, theirs in seconds.items()
        ]


def run_kernel_benchmark(description: str, measure: Callable[[KernelStage], Sequence[Measurement]]) -> int:
    """The command line that all of them have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu: only proves that it runs"
    )
    stage = KernelStage.opened(parser.parse_args().device)
    found = measure(stage)
    if stage.measures:
        print(f"copy: {stage.copy_gigabytes_a_second:,.4g} GB/s, read and written")
        print_measurements(found)
    else:
        print("ran in the interpreter, and equals the references; it measures nothing")
    return 0
