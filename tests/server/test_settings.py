"""Where settings come from, who wins, and how a wrong one is told."""

from pathlib import Path

import pytest

from precall.engine.errors import ConfigurationError
from precall.server.settings import ServerSettings


def load(flags=None, config=None, environment=None) -> ServerSettings:
    return ServerSettings.load(flags, config, environment or {})


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "precall.toml"
    path.write_text(text)
    return path


def test_the_defaults_are_loopback_and_sound():
    settings = load()
    assert (settings.host, settings.port, settings.metrics_host) == ("127.0.0.1", 50051, "127.0.0.1")
    assert settings.engine_settings.data_dir == settings.data_dir / "tenants"
    assert settings.engine_settings.anticipation.lease_seconds == settings.lease_seconds


def test_flags_win_over_environment_over_file_over_defaults(tmp_path):
    config = toml(tmp_path, 'port = 1\nmetrics_port = 1\nmax_batch = 1\nmodel = "x"')
    environment = {"PRECALL_PORT": "2", "PRECALL_METRICS_PORT": "2", "PRECALL_TARGET": "elsewhere:1"}
    settings = load({"port": 3, "metrics_port": None}, config, environment)
    assert (settings.port, settings.metrics_port, settings.max_batch) == (3, 2, 1)
    assert settings.max_concurrent_rpcs == 1_000


def test_zero_is_a_value(tmp_path):
    settings = load({"port": 0, "complete_below": 0}, toml(tmp_path, "drain_seconds = 0"))
    assert (settings.port, settings.complete_below, settings.drain_seconds) == (0, 0, 0)


@pytest.mark.parametrize(
    ("flags", "text", "environment", "words"),
    [
        ({"port": 70_000}, "", {}, ["port", "the command line", "65535"]),
        ({}, "", {"PRECALL_PORT": "http"}, ["port", "the environment", "integer"]),
        ({}, "prot = 1", {}, ["unknown setting prot", "precall.toml", "port"]),
        ({}, "port = ", {}, ["precall.toml", "no TOML"]),
        ({}, "lease_seconds = 1\nheartbeat_seconds = 1", {}, ["lease_seconds", "three heartbeats"]),
        ({}, 'log_level = "loud"', {}, ["log_level", "debug"]),
        ({"host": ""}, "", {}, ["host"]),
        ({"heartbeat_seconds": float("nan")}, "", {}, ["heartbeat_seconds"]),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(tmp_path, flags, text, environment, words):
    with pytest.raises(ConfigurationError) as caught:
        load(flags, toml(tmp_path, text), environment)
    assert "\n" not in caught.value.message.strip()
    for word in words:
        assert word in caught.value.message


def test_a_wrong_value_is_told_although_another_source_overrides_it(tmp_path):
    with pytest.raises(ConfigurationError, match=r"port in .*precall\.toml"):
        load({"port": 1}, toml(tmp_path, 'port = "x"'))
    with pytest.raises(ConfigurationError, match="port in the environment"):
        load({"port": 1}, environment={"PRECALL_PORT": "http"})


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load({}, tmp_path / "absent.toml")


def test_a_secret_is_in_no_message_and_no_repr():
    settings = load({"admin_key": "s3cret" * 8})
    assert "s3cret" not in repr(settings)
    with pytest.raises(ConfigurationError) as caught:
        load({"admin_key": ["s3cret"]})
    assert "s3cret" not in caught.value.message


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        load().port = 1  # type: ignore[misc]


def test_no_language_model_is_asked_unless_one_is_named():
    assert load().engine_settings.anticipation.language_model is None
    given = {"foresight_url": "http://127.0.0.1:1/v1", "foresight_model": "m", "foresight_seconds": 0.5}
    settings = load(
        given, environment={"PRECALL_FORESIGHT_KEY": "s3cret", "PRECALL_FORESIGHT_QUESTIONS": "2"}
    )
    anticipation = settings.engine_settings.anticipation
    asked = anticipation.language_model
    assert asked is not None and anticipation.foreseen.questions == 2
    assert (asked.url, asked.model, asked.key) == ("http://127.0.0.1:1/v1", "m", "s3cret")
    assert asked.timeout_seconds == 0.5
    assert "s3cret" not in repr(settings) and "s3cret" not in repr(asked)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"foresight_model": "m"}, "set foresight_url as well"),
        ({"foresight_key": "k"}, "set foresight_url as well"),
        ({"foresight_url": "http://x"}, "foresight_model"),
        ({"foresight_url": "x", "foresight_model": "m"}, "http"),
        (
            {"foresight_url": "http://x", "foresight_model": "m", "foresight_questions": 0},
            "foresight_questions",
        ),
        ({"foresight_url": "http://x", "foresight_model": "m", "foresight_seconds": 0}, "foresight_seconds"),
    ],
)
def test_half_a_language_model_is_told(given, named):
    with pytest.raises(ConfigurationError, match=named):
        load(given)
