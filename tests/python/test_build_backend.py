"""What pip is told before it compiles: `packaging/build_backend.py`, with a stand-in for maturin."""

import importlib.util
import pathlib
import sys
import types

import pytest

BACKEND = pathlib.Path(__file__).parents[2] / "packaging" / "build_backend.py"


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    """Returns a function that gives what the backend asks for, where these scripts are all that is in PATH."""
    maturin = types.ModuleType("maturin")
    maturin.get_requires_for_build_wheel = lambda settings=None: ["as maturin says"]
    monkeypatch.setitem(sys.modules, "maturin", maturin)
    spec = importlib.util.spec_from_file_location("build_backend", BACKEND)
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)

    def requirements(**scripts):
        for name, line in scripts.items():
            script = tmp_path / name.replace("cxx", "c++")
            script.write_text(f"#!/bin/sh\n{line}\n")
            script.chmod(0o755)
        return backend.get_requires_for_build_wheel()

    return requirements


def test_an_old_rust_and_a_missing_compiler_are_told_at_once(requirements):
    with pytest.raises(SystemExit, match=r"(?s)needs Rust 1\.\d+ .*found: 1\.60\.0.*no `cc`"):
        requirements(cargo="echo cargo 1.60.0")
    with pytest.raises(SystemExit, match=r"no `c\+\+`"):
        requirements(cargo="echo cargo 1.999.0-nightly", cc="")


def test_another_system_is_told_at_once(requirements, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="runs on Linux alone"):
        requirements(cargo="echo cargo 1.999.0", cc="", cxx="")


def test_a_machine_that_can_compile_gets_what_maturin_wants(requirements):
    assert requirements(cargo="echo cargo 1.999.0", cc="", cxx="") == ["as maturin says"]
