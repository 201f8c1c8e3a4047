"""Kernels run on the GPU where there is one, else in Triton's interpreter, to be chosen before Triton is
imported for the first time.
"""

import importlib.util
import os
import sys

import pytest
import torch

collect_ignore_glob: list[str] = []

if importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("test_*.py")
elif not torch.cuda.is_available():
    if "triton" in sys.modules and not sys.modules["triton"].knobs.runtime.interpret:
        raise RuntimeError(
            "Triton was imported before tests/kernels could choose its interpreter: run them alone"
        )
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20_261_201)
