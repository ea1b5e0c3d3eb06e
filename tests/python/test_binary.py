"""A wheel is installed in each layout that pip knows. There the package finds the program, and runs it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest
from conftest import TIMEOUT_S

import adapter_gateway
from adapter_gateway import BinaryNotFoundError, find_binary

PACKAGE = pathlib.Path(adapter_gateway.__file__).parent
# Without the global lock, it is `lib/python3.13t/site-packages`.
SITE = pathlib.Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A wheel with this package and the program."""
    folder = tmp_path_factory.mktemp("wheel")
    program = folder / "adapter-gateway"
    shutil.copy(find_binary(), program)
    subprocess.run(["strip", str(program)], check=False)
    info = "adapter_gateway-0.0.0.dist-info"
    files = {f"adapter_gateway/{path.relative_to(PACKAGE)}": path.read_bytes() for path in PACKAGE.rglob("*.py")}
    files["adapter_gateway-0.0.0.data/scripts/adapter-gateway"] = program.read_bytes()
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: adapter-gateway\nVersion: 0.0.0\n"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode()
    path = folder / "adapter_gateway-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)
    return path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The Python of a virtual environment with pip. It sees the packages of the user."""
    folder = tmp_path_factory.mktemp("venv") / "venv"
    venv.create(folder, with_pip=True, system_site_packages=True, symlinks=True)
    return folder / "bin" / "python"


def clean_environment(**variables: object) -> dict[str, str]:
    """Returns an environment in which nothing but the installation tells where package and program are."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ADAPTER_GATEWAY", "PYTHONPATH")}
    kept["PATH"] = "/usr/bin:/bin"
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**kept, **{name: str(value) for name, value in variables.items()}}


def install(python: pathlib.Path, wheel: pathlib.Path, *options: object, **variables: object) -> None:
    words = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    command = [str(word) for word in (*words, *options, wheel)]
    subprocess.run(command, env=clean_environment(**variables), check=True, timeout=TIMEOUT_S)


def assert_finds(python: pathlib.Path, expected: pathlib.Path, **variables: object) -> None:
    """The package finds the program at this path, and `python -m adapter_gateway` is that program."""
    for words, printed in (
        (["-c", "import adapter_gateway as it; print(it.find_binary())"], str(expected)),
        (["-m", "adapter_gateway", "--version"], "adapter-gateway "),
    ):
        command = [str(python), *words]
        environment = clean_environment(**variables)
        output = subprocess.run(command, env=environment, check=True, timeout=TIMEOUT_S, capture_output=True, text=True)
        assert output.stdout.startswith(printed), output


def test_a_virtual_environment(python, wheel):
    install(python, wheel)
    try:
        assert_finds(python, python.parent / "adapter-gateway")
        # Two programs may have the same name. The one on the path is another one.
        assert_finds(python, python.parent / "adapter-gateway", PATH="/nowhere")
    finally:
        command = [str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "adapter-gateway"]
        subprocess.run(command, env=clean_environment(), check=True, timeout=TIMEOUT_S)


def test_the_user(python, wheel, tmp_path):
    install(python, wheel, "--user", PYTHONUSERBASE=tmp_path)
    assert_finds(python, tmp_path / "bin" / "adapter-gateway", PYTHONUSERBASE=tmp_path)


def test_a_target(python, wheel, tmp_path):
    # RECORD says ../../bin/adapter-gateway. What is there belongs to another installation.
    other = tmp_path / "bin" / "adapter-gateway"
    other.parent.mkdir()
    other.write_text("#!/bin/false\n")
    other.chmod(0o755)
    target = tmp_path / "a" / "target"
    install(python, wheel, "--target", target)
    assert_finds(python, target / "bin" / "adapter-gateway", PYTHONPATH=target)
    moved = target.rename(tmp_path / "a" / "moved")
    assert_finds(python, moved / "bin" / "adapter-gateway", PYTHONPATH=moved)


def test_a_prefix(python, wheel, tmp_path):
    prefix = tmp_path / "prefix"
    install(python, wheel, "--prefix", prefix)
    assert_finds(python, prefix / "bin" / "adapter-gateway", PYTHONPATH=prefix / SITE)
    # The path of the packages may be a symbolic link, beside which there is no bin.
    link = tmp_path / "link"
    link.symlink_to(prefix / SITE)
    assert_finds(python, prefix / "bin" / "adapter-gateway", PYTHONPATH=link)


def test_the_first_of_two_installations(python, wheel, tmp_path):
    for prefix in (tmp_path / "first", tmp_path / "second"):
        install(python, wheel, "--prefix", prefix, "--ignore-installed")
    path = f"{tmp_path}/first/{SITE}:{tmp_path}/second/{SITE}"
    assert_finds(python, tmp_path / "first" / "bin" / "adapter-gateway", PYTHONPATH=path)


def test_packages_without_a_record(python, wheel, tmp_path):
    install(python, wheel, "--prefix", tmp_path)
    for info in (tmp_path / SITE).glob("*.dist-info"):
        shutil.rmtree(info)
    scripts = python.parent / "adapter-gateway"
    (tmp_path / "bin" / "adapter-gateway").rename(scripts)
    try:
        assert_finds(python, scripts, PYTHONPATH=tmp_path / SITE)
    finally:
        scripts.unlink()


def test_the_variable_comes_first(monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("ADAPTER_GATEWAY", str(program))
    assert find_binary() == program
    # A name is looked up like a command.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ADAPTER_GATEWAY", "program")
    assert find_binary() == program
    # What is no program is an error, and no other program takes its place.
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BinaryNotFoundError, match="'program', which is no program; correct it, or unset it$"):
        find_binary()
    monkeypatch.setenv("PATH", str(tmp_path))
    program.chmod(0o644)
    with pytest.raises(BinaryNotFoundError, match="'program', which is no program; correct it, or unset it$"):
        find_binary()
    monkeypatch.setenv("ADAPTER_GATEWAY", str(program))
    with pytest.raises(BinaryNotFoundError, match=f"{program}', which is no program: it may not be executed"):
        find_binary()


def test_no_program_anywhere(python, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "adapter_gateway")
    command = [str(python), "-m", "adapter_gateway", "--version"]
    output = subprocess.run(
        command, env=clean_environment(PYTHONPATH=tmp_path), timeout=TIMEOUT_S, capture_output=True, text=True
    )
    assert output.returncode == 1
    assert output.stderr.startswith(f"adapter-gateway: no program is at {tmp_path}/bin/adapter-gateway, ")
    assert output.stderr.endswith("; `pip install adapter-gateway` brings it, or set ADAPTER_GATEWAY to its path\n")


def test_a_program_that_may_not_be_executed_is_told(python, wheel, tmp_path):
    """Some installers forget the mode of a file."""
    install(python, wheel, "--target", tmp_path)
    program = tmp_path / "bin" / "adapter-gateway"
    program.chmod(0o644)
    command = [str(python), "-m", "adapter_gateway", "--version"]
    output = subprocess.run(command, env=clean_environment(PYTHONPATH=tmp_path), capture_output=True, text=True)
    told = f"adapter-gateway: {program} is no program: it may not be executed, by its mode or by `noexec` of its file system"
    assert output.returncode == 1 and output.stderr.startswith(f"{told}; `pip install adapter-gateway` ")


def test_the_path_comes_last(python, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "adapter_gateway")
    program = tmp_path / "elsewhere" / "adapter-gateway"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho adapter-gateway 1.0\n")
    program.chmod(0o755)
    assert_finds(python, program, PYTHONPATH=tmp_path, PATH=f"{program.parent}:/usr/bin:/bin")
    own = tmp_path / "bin" / "adapter-gateway"
    own.parent.mkdir()
    program.rename(own)
    assert_finds(python, own, PYTHONPATH=tmp_path, PATH=f"{program.parent}:/usr/bin:/bin")


def module(*arguments: str) -> subprocess.Popen[str]:
    """Starts `python -m adapter_gateway`."""
    command = [sys.executable, "-m", "adapter_gateway", *arguments]
    environment = {**os.environ, "ADAPTER_GATEWAY": str(find_binary())}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_program_that_the_module_cannot_become_is_told(tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.touch(0o755)
    monkeypatch.setenv("ADAPTER_GATEWAY", str(empty))
    with module("--version") as ended:
        assert ended.wait(TIMEOUT_S) == 1
        assert ended.stderr.read().startswith("adapter-gateway: the program cannot be run: [Errno 8] Exec format error")


def test_the_module_becomes_the_program(settings):
    arguments = ["serve", "--settings", str(settings), "--listen=127.0.0.1:0", "--plain", "--watch-stdin"]
    arguments += ["--bind", f"ipc://{settings.parent}/bus"]
    with module(*arguments) as gateway:
        assert '"state":"bound"' in gateway.stdout.readline()
        assert f'"pid":{gateway.pid},' in gateway.stdout.readline()
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(TIMEOUT_S) == 0
    with module(*arguments) as gateway:
        assert '"state":"bound"' in gateway.stdout.readline()
        gateway.stdin.close()
        assert gateway.wait(TIMEOUT_S) == 0
    with module("serve", "--wrokers", "1") as gateway:
        assert gateway.wait(TIMEOUT_S) == 2
        assert "--wrokers" in gateway.stderr.read()
