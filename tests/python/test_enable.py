"""`enable` and `disable` switch the gateway on and off in the user settings."""

from __future__ import annotations

import signal
import stat

import pytest

import adapter_gateway
from adapter_gateway import SettingsError


def test_a_file_is_made_and_switched_off_and_on(tmp_path):
    settings = tmp_path / "adapter" / "user_settings.py"
    adapter_gateway.enable(settings)
    made = settings.read_text()
    assert made.startswith('OPEN_REST_API = True\nTOKEN = "')
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    adapter_gateway.disable(str(settings))
    assert settings.read_text() == made.replace("True", "False")
    adapter_gateway.enable(settings)
    assert settings.read_text() == made


def test_the_file_of_serve_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    adapter_gateway.enable()
    assert (tmp_path / "adapter" / "user_settings.py").exists()


@pytest.mark.parametrize("reaps", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_file_that_cannot_be_edited_stays_and_its_place_is_named(settings, reaps):
    settings.write_text("OPEN_REST_API = x = False\n")
    before = signal.signal(signal.SIGCHLD, reaps)
    try:
        with pytest.raises(SettingsError, match=":1:1: OPEN_REST_API is bound here") as raised:
            adapter_gateway.enable(settings)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert str(raised.value).startswith(str(settings))
    assert settings.read_text() == "OPEN_REST_API = x = False\n"


def test_a_gateway_that_runs_follows(options, settings):
    adapter_gateway.disable(settings)
    with adapter_gateway.Gateway(until="started", **options) as gateway:
        adapter_gateway.enable(settings)
        gateway.wait_until("ready", options["start_timeout"])
