"""What the Qwen3 engine promises, checked on the device at hand: plain functions that assert.

Each check returns a line that says how near it came. They need torch, transformers and tokenizers, no pytest.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from precall.bench.gpu_contract_models import TOLERANCES, ContractModels, NotHere
from precall.bench.gpu_device_checks import (
    check_one_kernel_attends_to_each_text_alone,
    check_out_of_memory_is_typed_and_passes,
    check_recorded_passes_are_plain_passes,
)
from precall.bench.gpu_vector_checks import (
    check_a_dimension_is_cut_then_normalised,
    check_batch_is_single_is_repeat,
    check_not_a_number_fails_alone,
    check_passes_back_to_back,
    check_scores_are_those_of_transformers,
    check_the_guards_pass,
    check_vectors_are_those_of_transformers,
)


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class CheckResult:
    name: str
    outcome: Outcome
    detail: str
    seconds: float


Check = Callable[[ContractModels, str], str]
"""Takes the models and a dtype; raises what went wrong, ``AssertionError`` or whatever it was."""

CHECKS: tuple[Check, ...] = (
    check_vectors_are_those_of_transformers,
    check_batch_is_single_is_repeat,
    check_passes_back_to_back,
    check_a_dimension_is_cut_then_normalised,
    check_not_a_number_fails_alone,
    check_scores_are_those_of_transformers,
    check_the_guards_pass,
    check_one_kernel_attends_to_each_text_alone,
    check_recorded_passes_are_plain_passes,
    check_out_of_memory_is_typed_and_passes,
)


def run_checks(models: ContractModels) -> list[CheckResult]:
    """Every check in both precisions. Nothing that one raises keeps the next from running."""
    return [run_check(check, models, dtype) for check in CHECKS for dtype in TOLERANCES]


def run_check(check: Check, models: ContractModels, dtype: str) -> CheckResult:
    name = f"{check.__name__.removeprefix('check_').replace('_', ' ')}, {dtype}"
    begin = time.perf_counter()
    try:
        outcome, detail = Outcome.PASSED, check(models, dtype)
    except NotHere as reason:
        outcome, detail = Outcome.SKIPPED, str(reason)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome = Outcome.FAILED
        detail = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    return CheckResult(name, outcome, detail, time.perf_counter() - begin)
