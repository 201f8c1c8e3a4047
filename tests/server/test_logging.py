"""What the server lets into its log, and what it keeps out."""

import json
import subprocess
import sys

ENGINE_SPEAKS = """
import logging
from precall.server.logging import configure_logging

configure_logging("info", "json")
facts = {"tenant": "acme", "from": "old", "to": "new", "state": "switched", "text": "Dana likes boats"}
logging.getLogger("precall.engine.migration.log").info("a step", extra=facts)
"""


def test_what_the_engine_says_in_fields_is_logged_as_fields_and_nothing_else_is():
    spoken = subprocess.run(
        [sys.executable, "-P", "-c", ENGINE_SPEAKS], capture_output=True, text=True, check=True
    )
    (line,) = map(json.loads, spoken.stderr.splitlines())
    assert (line["event"], line["level"]) == ("a step", "info")
    assert (line["tenant"], line["from"], line["to"], line["state"]) == ("acme", "old", "new", "switched")
    assert "Dana" not in spoken.stderr
