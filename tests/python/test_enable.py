"""`enable` and `disable` switch the gateway on and off in the user settings."""

from __future__ import annotations

import asyncio
import os
import signal
import stat

import pytest

import adapter_gateway
from adapter_gateway import GatewayError, SettingsError, aio


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


def test_asyncio_switches_too(tmp_path):
    settings = tmp_path / "user_settings.py"

    async def main() -> list[bool]:
        await aio.enable(settings)
        first = adapter_gateway.is_enabled(settings)
        await aio.disable(settings)
        return [first, adapter_gateway.is_enabled(settings)]

    assert asyncio.run(main()) == [True, False]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (None, False),
        ("", False),
        ("OPEN_REST_API = True\n", False),
        ("OPEN_REST_API = 1\nTOKEN = 't'\n", False),
        ("OPEN_REST_API = True\nTOKEN = ''\n", False),
        ("OPEN_REST_API = True\nTOKEN = 't'\n", True),
    ],
)
def test_the_first_state_of_a_check_box_and_the_token(tmp_path, monkeypatch, text, state):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = tmp_path / "adapter" / "user_settings.py"
    settings.parent.mkdir()
    if text is not None:
        settings.write_text(text)
    assert adapter_gateway.is_enabled() is adapter_gateway.is_enabled(settings) is state
    if state:
        assert adapter_gateway.read_token() == adapter_gateway.read_token(str(settings)) == "t"
        settings.write_text(text + "def\n")
        with pytest.raises(SettingsError, match=":3:"):
            adapter_gateway.is_enabled()


@pytest.mark.parametrize("token", ["5", "0", "b'x'", "b''", r"'\ud800'"])
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("read", [adapter_gateway.is_enabled, adapter_gateway.read_token])
def test_a_token_that_the_program_refuses_has_no_state(settings, token, is_open, read):
    settings.write_text(f"OPEN_REST_API = {is_open}\nTOKEN = {token}\n")
    with pytest.raises(SettingsError, match="TOKEN (is not a string|holds a lone surrogate)"):
        read(settings)


@pytest.mark.parametrize("error", [8, 11])
def test_a_program_that_cannot_be_run_is_told(settings, monkeypatch, error):
    def refused(*_, **__):
        raise OSError(error, os.strerror(error), "program")

    monkeypatch.setattr("subprocess.run", refused)
    with pytest.raises(GatewayError, match=os.strerror(error)):
        adapter_gateway.enable(settings)


def test_the_file_of_serve_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    adapter_gateway.enable()
    assert (tmp_path / "adapter" / "user_settings.py").exists()


@pytest.mark.parametrize("reaps", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_file_that_cannot_be_edited_stays_and_its_place_is_named(settings, reaps):
    settings.write_text("OPEN_REST_API = (\n")
    before = signal.signal(signal.SIGCHLD, reaps)
    try:
        with pytest.raises(SettingsError, match=":2:1: unexpected end of the file") as raised:
            adapter_gateway.enable(settings)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert str(raised.value).startswith(str(settings))
    assert settings.read_text() == "OPEN_REST_API = (\n"


def test_a_gateway_that_runs_follows(options, settings):
    adapter_gateway.disable(settings)
    with adapter_gateway.Gateway(until="started", **options) as gateway:
        adapter_gateway.enable(settings)
        gateway.wait_until("ready", options["start_timeout"])
