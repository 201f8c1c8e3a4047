"""Variables that look like settings and are none."""

import pytest

from precall.server.settings import ServerSettings, unknown_variables


@pytest.mark.parametrize(
    ("variable", "resembled"),
    [
        ("PRECALL_PROT", "PRECALL_PORT"),
        ("PRECALL_LEASE_SECOND", "PRECALL_LEASE_SECONDS"),
        ("PRECALL_XYZZY", ""),
        ("PRECALL_", ""),
    ],
)
def test_a_misspelt_setting_is_told_with_the_one_that_was_meant(variable: str, resembled: str) -> None:
    assert unknown_variables({variable: "3", "PATH": "/bin"}) == {variable: resembled}


def test_what_is_set_for_others_is_no_mistake() -> None:
    settings = {f"PRECALL_{name.upper()}" for name in ServerSettings.model_fields}
    commands = {"PRECALL_TARGET", "PRECALL_API_KEY"}
    kubernetes = {
        "PRECALL_SERVICE_HOST",
        "PRECALL_SERVICE_PORT",
        "PRECALL_SERVICE_PORT_GRPC",
        "PRECALL_PORT_50051_TCP",
        "PRECALL_PORT_50051_TCP_ADDR",
        "PRECALL_HEADLESS_SERVICE_HOST",
    }
    assert not unknown_variables(dict.fromkeys(settings | commands | kubernetes, "1"))
