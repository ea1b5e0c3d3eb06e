"""What pip builds the package with: maturin, and before it one look whether this machine can compile the program.

pip shows what a build prints only after it has failed, which without a compiler takes minutes.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import maturin
from maturin import *  # noqa: F403

_MANIFEST = pathlib.Path(__file__).parent.parent / "Cargo.toml"


def get_requires_for_build_wheel(config_settings=None):
    """The first thing that pip asks for. Where there is no Rust, maturin asks for a package that installs it."""
    _check()
    return maturin.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    _check()
    return maturin.get_requires_for_build_editable(config_settings)


def _check():
    if sys.platform != "linux":
        raise SystemExit("adapter-gateway runs on Linux alone. Elsewhere, post with any HTTP client.")
    wanted = re.search(r'^rust-version = "(.*)"', _MANIFEST.read_text(), re.MULTILINE)[1]
    missing = []
    if shutil.which("cargo"):
        # What cargo says depends on the folder: rustup may choose another toolchain there.
        said = subprocess.run(["cargo", "--version"], cwd=_MANIFEST.parent, capture_output=True, text=True).stdout
        found = re.match(r"cargo (\d+)\.(\d+)", said)
        if found and tuple(map(int, found.groups())) < tuple(map(int, wanted.split("."))):
            missing.append(f"Rust {wanted} or later (found: {said.split()[1]}; `rustup update` brings it)")
    for variable, command in (("CC", "cc"), ("CXX", "c++")):
        if not os.environ.get(variable) and not shutil.which(command):
            missing.append(f"a C and a C++ compiler (there is no `{command}`; on Debian: `apt install g++`)")
            break
    if missing:
        raise SystemExit(
            "adapter-gateway: pip compiles the program here, which takes some minutes and needs Rust "
            f"{wanted} and a C++ compiler. Missing:\n  "
            + "\n  ".join(missing)
            + "\nA wheel needs neither: `pip install --only-binary :all: adapter-gateway`."
        )
