import os
import subprocess

import pytest


def test_the_committed_stubs_are_those_of_the_proto_files(project_root):
    python = project_root / ".venv-proto" / "bin" / "python"
    if not python.exists():
        reason = "needs the pinned generator: `make proto` or `make test` sets up .venv-proto"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    command = [str(python), "-P", "tools/generate_stubs.py", "--check"]
    done = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
