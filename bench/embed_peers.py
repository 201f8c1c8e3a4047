"""infinity-emb serving the same model, in a process and an environment of its own, to compare with."""

import base64
import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

HOW_TO_GET: Final = "run `make .venv-peers/.installed` and name --peer-python .venv-peers/bin/python"
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.2
_MODEL: Final = "minilm"


class PeerFailed(RuntimeError):
    """The peer did not start or did not answer; the message holds the end of its log."""


class InfinityServer:
    """`infinity_emb` over HTTP on loopback; its torch engine and its own defaults, float32.

    ``embed`` may be called from several threads.
    """

    def __init__(self, python: Path, model_folder: Path, folder: Path) -> None:
        self._python = python
        self._model_folder = model_folder
        self._log = folder / "infinity.log"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [
            *(str(self._python.parent / "infinity_emb"), "v2"),
            *("--model-id", str(self._model_folder), "--served-model-name", _MODEL),
            *("--engine", "torch", "--device", "cpu", "--dtype", "float32"),
            *("--host", "127.0.0.1", "--port", str(self._port), "--log-level", "warning"),
        ]
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdout=log,
                    stderr=log,
                    env=os.environ | {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "PYTHONSAFEPATH": "1"},
                )
            except OSError as error:
                raise PeerFailed(
                    f"{command[0]} cannot be started ({error.strerror}): {HOW_TO_GET}"
                ) from error
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape ``(n, dimension)``, sent as base64, its quickest way. Raises PeerFailed.

        A connection a request, because it hangs up on an idle one, and here servers take turns in being idle;
        to open one costs 0.2 ms of the hundreds that a batch takes.
        """
        body = json.dumps({"model": _MODEL, "input": list(texts), "encoding_format": "base64"})
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=START_SECONDS)
        try:
            connection.request("POST", "/embeddings", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise PeerFailed(f"infinity did not answer ({type(error).__name__}): {self._tail()}") from error
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise PeerFailed(f"infinity answered {response.status}: {answer[:200].decode(errors='replace')}")
        rows = [
            np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in json.loads(answer)["data"]
        ]
        return np.stack(rows)

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise PeerFailed(f"infinity ended at its start: {self._tail()}")
            try:
                self.embed(["ready?"])
                return
            except PeerFailed:
                time.sleep(_POLL_SECONDS)  # it tells nobody when it is ready
        raise PeerFailed(f"infinity was not ready after {START_SECONDS:.0f} s: {self._tail()}")

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
