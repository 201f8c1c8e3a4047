"""The key store on its own: what it holds, what it survives, what it never writes down."""

import stat

import pytest

from precall.engine.errors import ConfigurationError, InvalidInput, NotFound
from precall.engine.memory.ladder import Rung
from precall.server.admin_key import ensure_admin_key, read_admin_key
from precall.server.keys import KeyStore, Role


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control.db"


def test_a_token_finds_its_key_and_nothing_near_it_does(path):
    keys = KeyStore(path)
    issued = keys.issue(tenant_id="acme", role=Role.READ, label="kiosk")
    token = issued.token
    assert keys.find(token) == issued.key
    prefix, key_id, secret = token.split("_", 2)
    assert len(secret) >= 43  # 256 bits
    other = keys.issue(tenant_id="zen", role=Role.WRITE).token.split("_", 2)[2]
    for wrong in ("", "pck", f"{prefix}_{key_id}", f"{prefix}_{key_id}_", f"x_{key_id}_{secret}", token + "x",
                  token[:-1], f"{prefix}_{key_id}_{other}", f"{prefix}__{secret}", "ü" * 50):  # fmt: skip
        assert keys.find(wrong) is None, wrong


def test_no_secret_reaches_the_disk(path):
    keys = KeyStore(path)
    secret = keys.issue(tenant_id="acme", role=Role.READ).token.split("_", 2)[2]
    keys.close()
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert secret.encode() not in written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_secret_is_in_a_repr(path):
    issued = KeyStore(path).issue(tenant_id="acme", role=Role.READ)
    assert issued.token.split("_", 2)[2] not in repr(issued)


def test_everything_outlives_a_restart(path):
    keys = KeyStore(path)
    pinned = keys.issue(
        tenant_id="acme", role=Role.WRITE, label="kiosk", pinned_scope={"customer": "a", "user": "b"}
    )
    revoked = keys.issue(tenant_id="acme", role=Role.READ)
    keys.revoke(revoked.key.id)
    keys.close()
    keys = KeyStore(path)
    assert keys.find(pinned.token) == pinned.key
    assert pinned.key.pinned_rung == Rung(("a", "b"))
    assert keys.find(revoked.token) is None
    assert not keys.is_good(revoked.key.id)
    assert keys.get(revoked.key.id).revoked_at is not None
    assert [key.id for key in keys.of_tenant("acme")] == [pinned.key.id, revoked.key.id]


def test_revoking_twice_is_as_once(path):
    keys = KeyStore(path)
    key = keys.issue(tenant_id="acme", role=Role.READ).key
    assert keys.revoke(key.id) == keys.revoke(key.id)
    with pytest.raises(NotFound):
        keys.revoke("absent")


def test_the_keys_of_a_tenant_go_together(path):
    keys = KeyStore(path)
    gone = keys.issue(tenant_id="acme", role=Role.READ)
    kept = keys.issue(tenant_id="zen", role=Role.READ)
    keys.remove_tenant("acme")
    assert keys.find(gone.token) is None
    assert not keys.is_good(gone.key.id)
    assert keys.find(kept.token) == kept.key


@pytest.mark.parametrize(
    "fields",
    [
        {"tenant_id": None, "role": Role.WRITE},
        {"tenant_id": "acme", "role": Role.ADMIN, "pinned_scope": {"user": "x"}},
        {"tenant_id": "acme", "role": Role.READ, "label": "x" * 201},
    ],
)
def test_what_is_no_key(path, fields):
    with pytest.raises(InvalidInput):
        KeyStore(path).issue(**fields)


def test_a_damaged_file_keeps_the_server_from_starting_and_says_so(path):
    path.write_bytes(b"noise" * 2000)
    with pytest.raises(ConfigurationError, match="key file"):
        KeyStore(path)


def test_a_short_configured_key_is_refused(path):
    with pytest.raises(ConfigurationError, match="32 characters"):
        KeyStore(path, configured_admin="short")


def test_the_first_start_leaves_an_admin_key_for_its_owner_alone(path):
    keys = KeyStore(path)
    assert not keys.has_admin
    written = ensure_admin_key(keys, path.parent)
    assert written is not None
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    token = read_admin_key(path.parent)
    assert token is not None
    found = keys.find(token)
    assert found is not None
    assert (found.role, found.tenant_id) == (Role.ADMIN, None)
    assert ensure_admin_key(keys, path.parent) is None  # once


def test_a_key_that_cannot_be_written_down_is_not_left_behind(path, tmp_path):
    keys = KeyStore(path)
    with pytest.raises(ConfigurationError, match="admin key"):
        ensure_admin_key(keys, tmp_path / "absent")
    assert not keys.has_admin


def test_roles_cover_what_is_below_them():
    assert Role.ADMIN.covers(Role.WRITE)
    assert Role.WRITE.covers(Role.READ)
    assert not Role.READ.covers(Role.WRITE)
