"""Addresses, tokens, and the settings file."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pwd
import signal
import threading
from urllib.parse import quote

import pytest
from rig import AsyncClient, Gateway, gateway

import adapter_gateway
from adapter_gateway.endpoint import Endpoint, content
from adapter_gateway.settings import default_path, read_token

SECRET = "s3cret/&=%"


@pytest.mark.parametrize(
    ("address", "line", "host"),
    [
        ("http://localhost:12358/api/message", b"/api/message", b"localhost:12358"),
        ("https://[::1]:1", b"/api/message", b"[::1]:1"),
        ("https://[fe80::1%eth0]:1", b"/api/message", b"[fe80::1]:1"),
        ("http://gateway/", b"/api/message", b"gateway"),
        ("http://proxy/below/api/message", b"/below/api/message", b"proxy"),
        ("/run/user/1000/gateway", b"/api/message", b"localhost"),
        ("unix:gateway", b"/api/message", b"localhost"),
        (pathlib.Path("gateway"), b"/api/message", b"localhost"),
    ],
)
def test_addresses(address, line, host):
    request = Endpoint(address, SECRET, None).head + content("t", {"ü": 1})
    head, body = request.split(b"\r\n\r\n")
    fields = b"Host: %b\r\nAuthorization: Bearer s3cret/&=%%\r\nContent-Type: application/json\r\n" % host
    assert head.startswith(b"POST %b HTTP/1.1\r\n%b" % (line, fields))
    assert head.endswith(b"\r\nContent-Length: %d" % len(body))
    assert body == b'{"topic":"t","payload":{"\\u00fc":1}}'


@pytest.mark.parametrize("token", ["a b", " ab", "é", "a\r\nX: y", "\x7f"])
def test_a_token_that_no_field_can_carry_is_in_the_query(token):
    line, *fields = Endpoint("http://localhost", token, None).head.split(b"\r\n")
    assert line == f"POST /api/message?token={quote(token, safe='')} HTTP/1.1".encode()
    assert [field.partition(b":")[0] for field in fields] == [b"Host", b"Content-Type", b"Content-Length"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ftp://localhost", SECRET),
        (f"http://localhost/?token={SECRET}", SECRET),
        ("http://s3cret@localhost/", SECRET),
        ("http://", SECRET),
        ("http://localhost:99999", SECRET),
        ("http://localhost:0", SECRET),
        ("https://localhost:0", SECRET),
        ("unix:", SECRET),
        ("", SECRET),
        ("http://localhost", ""),
        ("http://localhost", SECRET + "\ud800"),
        ("http://localhost", SECRET, "cert.pem"),
        ("/run/gateway", SECRET, "cert.pem"),
        ("http://bücher", SECRET),
    ],
)
def test_arguments_that_cannot_be_right(arguments):
    with pytest.raises(ValueError) as error:
        adapter_gateway.Client(*arguments)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("kind", [adapter_gateway.Client, AsyncClient])
def test_no_error_and_no_repr_shows_the_token(kind, tmp_path):
    with kind(tmp_path / "none", SECRET) as client:
        with pytest.raises(adapter_gateway.NotSentError) as error:
            client.send("t", {})
        shown = repr(error.value) + str(error.value) + repr(client) + repr(Endpoint("/x", SECRET, None))
    assert "s3cret" not in shown and str(tmp_path / "none") in shown


def test_json_text_is_sent_as_it_stands():
    for payload in ('{"a": 1.10, "ü": 2}', '{"a": 1.10, "ü": 2}'.encode()):
        assert content('"', payload).endswith('{"topic":"\\"","payload":{"a": 1.10, "ü": 2}}'.encode())


OPEN = "OPEN_REST_API = True\n"


@pytest.mark.parametrize(
    ("source", "token"),
    [
        (OPEN + "TOKEN = 'a'", "a"),
        (OPEN + "TOKEN = 'a'\nTOKEN = 'b'", "b"),
        (OPEN + "TOKEN = 'a' 'b'", "ab"),
        (OPEN + "TOKEN: str = 'a'", "a"),
        (OPEN + "TOKEN = 'a'\nTOKEN: str", "a"),
        (OPEN + "OTHER = TOKEN = 'a'", "a"),
        (OPEN + "TOKEN = 'a'\nif True:\n    TOKEN = 'b'\ndef f():\n    TOKEN = 'c'", "a"),
        ("import missing\n(OPEN_REST_API, TOKEN), x = (True, 'a'), missing.x", "a"),
        ("[OPEN_REST_API, TOKEN] = True, 'a'", "a"),
        ("TOKEN = 'a'", "a"),
        ("if 1:\n    OPEN_REST_API = False\nTOKEN = 'a'", "a"),
        ("# coding: latin-1\n".encode() + OPEN.encode() + b"TOKEN = '\xe9'", "é"),
    ],
)
def test_settings_with_a_token(source, token, tmp_path):
    file = tmp_path / "user_settings.py"
    file.write_bytes(source if isinstance(source, bytes) else source.encode())
    assert read_token(file) == token


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "TOKEN is not set, or empty; `adapter-gateway enable --settings "),
        ("OPEN_REST_API = False\nTOKEN = 'a'", "does not listen; `adapter-gateway enable --settings "),
        ("OPEN_REST_API = 1\nTOKEN = 'a'", "OPEN_REST_API is not set to True"),
        (OPEN, "TOKEN is not set"),
        (OPEN + "TOKEN = ''", "TOKEN is not set"),
        (OPEN + "TOKEN = None", "TOKEN is not set"),
        (OPEN + "TOKEN = 5", "TOKEN is not a string"),
        (OPEN + "TOKEN = b's3cret'", "TOKEN is not a string"),
        (OPEN + r"TOKEN = 's3cret\ud800'", "TOKEN holds a lone surrogate"),
        (OPEN + "TOKEN = 's3cret'\nTOKEN += 's3cret'", ":3: TOKEN is not a literal"),
        (OPEN + "TOKEN = f('s3cret')", ":2: TOKEN is not a literal"),
        (OPEN + "TOKEN, x = 's3cret', *'a'", ":2: TOKEN is not a literal"),
        (OPEN + "*TOKEN, x = 's3cret'", ":2: TOKEN is not a literal"),
        (OPEN + "TOKEN = 's3cret", ":2:"),
        (OPEN + "TOKEN = 's3cret\0'", "user_settings.py"),
        (OPEN + "x = " + "(" * 5000, "user_settings.py"),
        ("#" * ((1 << 20) + 1), "too large"),
    ],
)
def test_settings_without_a_token(source, reason, tmp_path):
    file = tmp_path / "user_settings.py"
    file.write_text(source)
    with pytest.raises(adapter_gateway.SettingsError) as error:
        read_token(file)
    assert str(file) in str(error.value) and reason in str(error.value) and "s3cret" not in str(error.value)


def test_a_file_that_is_missing_names_what_makes_it(tmp_path):
    """The file may not be that of `adapter-gateway enable` without an option, nor the gateway be on this machine."""
    file = tmp_path / "my settings.py"
    cure = f"`adapter-gateway enable --settings '{file}'` switches the gateway on"
    elsewhere = "; on another machine, write its TOKEN into the file"
    for source, end in ((None, cure + elsewhere), (OPEN, cure + elsewhere), ("OPEN_REST_API = False", cure)):
        if source is not None:
            file.write_text(source)
        with pytest.raises(adapter_gateway.SettingsError) as error:
            adapter_gateway.Client.from_settings(file)
        assert str(error.value).startswith(f"{file}: ") and str(error.value).endswith(f"; {end}")


def test_settings_that_are_no_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, pathlib.Path("/dev/null")):
        with pytest.raises(adapter_gateway.SettingsError, match=f"{path}: "):
            read_token(path)


def test_a_lease_that_another_program_gives_back_is_no_answer(tmp_path):
    file = tmp_path / "user_settings.py"
    file.write_text("TOKEN = 's3cret'")
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    with file.open("r+b") as held:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        threading.Timer(0.1, fcntl.fcntl, (held, fcntl.F_SETLEASE, fcntl.F_UNLCK)).start()
        assert read_token(file) == "s3cret"
    signal.signal(signal.SIGIO, before)


def test_a_relative_path_of_the_settings_means_the_same_file_for_ever(tmp_path, monkeypatch):
    with gateway(tmp_path, over="https") as running:
        monkeypatch.chdir(tmp_path)
        with adapter_gateway.Client.from_settings(running.settings.name, url=running.ready().url) as client:
            monkeypatch.chdir("/")
            client.send("t", {})
            assert client._pool.endpoint.token_name == f"TOKEN in {running.settings}"


def test_where_the_settings_are(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    for value, expected in (("/xdg", "/xdg"), ("relative", "/home/someone/.config"), ("", "/home/someone/.config")):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert default_path() == pathlib.Path(expected, "adapter", "user_settings.py")
    # For the program, too, an empty variable is none (std::env::home_dir).
    monkeypatch.setenv("HOME", "")
    assert default_path() == pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, ".config", "adapter", "user_settings.py")


def test_the_address_of_settings(tmp_path, monkeypatch):
    # What makes a context of TLS reads the certificate.
    monkeypatch.setattr(Endpoint, "tls_context", lambda endpoint: None)
    made = adapter_gateway.Client.from_settings

    def found(*arguments, **options):
        endpoint = made(*arguments, **options)._pool.endpoint
        return endpoint.address, endpoint.token, endpoint.certificate

    file = tmp_path / "user_settings.py"
    file.write_text(OPEN + "TOKEN = 'a'")
    with pytest.raises(adapter_gateway.SettingsError, match="no certificate"):
        made(file)
    certificate = tmp_path / "gateway-cert.pem"
    certificate.touch()
    url = "https://localhost:12358/api/message"
    assert found(file) == (url, "a", str(certificate))
    assert found(file, certificate="other.pem") == (url, "a", str(pathlib.Path("other.pem").absolute()))
    assert found(file, url="http://localhost:1") == ("http://localhost:1", "a", None)
    assert found(str(file), socket="/run/x") == ("unix:/run/x", "a", None)
    assert found(file, socket="localhost:1") == ("unix:localhost:1", "a", None)
    with pytest.raises(ValueError):
        made(file, url="http://localhost", socket="/run/x")
    with pytest.raises(adapter_gateway.SettingsError, match="missing.py"):
        made(tmp_path / "missing.py")


@pytest.mark.parametrize("kind", [adapter_gateway.Client, adapter_gateway.aio.Client])
def test_from_settings_uses_the_default_file(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "user_settings.py").write_text(OPEN + "TOKEN = 's3cret'")
    certificate = tmp_path / "adapter" / "gateway-cert.pem"
    certificate.touch()
    with pytest.raises(ValueError, match="gateway-cert.pem cannot be used: it holds no certificate"):
        kind.from_settings()
    with gateway(tmp_path, over="https") as running:
        certificate.write_bytes(running.certificate.read_bytes())
    assert repr(kind.from_settings()) == "<Client https://localhost:12358/api/message>"
    assert repr(kind.from_settings(socket="/run/x")) == "<Client unix:/run/x>"


@pytest.mark.parametrize("kind", [adapter_gateway.Client, adapter_gateway.aio.Client])
@pytest.mark.parametrize(
    "address", ["localhost:12358", "127.0.0.1:1", "[::1]:12358", "raspberrypi.local:1/api/message"]
)
def test_an_address_without_its_scheme(kind, address):
    with pytest.raises(ValueError) as error:
        kind(address, "token")
    assert f"https://{address}" in str(error.value) and f"unix:{address}" in str(error.value)
    # Who means a file says so.
    for path in (f"unix:{address}", pathlib.Path(address), f"./{address}"):
        assert repr(kind(path, "token")).startswith("<Client unix:")


def test_the_settings_of_a_gateway_that_is_off(tmp_path):
    off = "OPEN_REST_API = False\nTOKEN = 'a'\n"
    running = Gateway(tmp_path, "--listen", "127.0.0.1:0", "--bind", f"ipc://{tmp_path}/bus", settings=off)
    try:
        reason = running.event("disabled")["reason"]
        with pytest.raises(adapter_gateway.SettingsError) as error:
            adapter_gateway.Client.from_settings(running.settings)
        assert "OPEN_REST_API" in reason and "OPEN_REST_API" in str(error.value)
    finally:
        running.kill()
