"""Install missing packages from gathered wheels, and WarpDrive itself, into a folder, without a network.

    python tools/install_offline.py --wheels wheels --into .offline

`make gpu-test` and `make gpu-benchmark` run it. Installed packages are kept if their versions suffice; no file outside
of the folder is changed, and no virtual environment is created. To use what was installed, `PYTHONPATH` begins with the
folder, and `PYTHONSAFEPATH` is set.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

if sys.version_info < (3, 11):
    raise SystemExit("the machine with the GPU needs Python 3.11 or newer: make PYTHON=python3.12 ...")

import tomllib

PROJECT = Path(__file__).parents[1]
ALSO_NEEDED = ("pytest", "pytest-xdist", "setuptools", "ale-py")
"""Packages of the extra `test` that are needed as well; `ale-py` for the ROMs of Atari games."""
MARKER = ".install_offline"
"""File in the folders that this program has made."""


def main() -> None:
    """Install, and print the origin of each package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, default=PROJECT / "wheels", help="folder of wheels (default: wheels/)")
    parser.add_argument(
        "--into", type=Path, default=PROJECT / ".offline", help="folder to install into (default: .offline/)"
    )
    options = parser.parse_args()
    needed = requirements()
    carried = [wheel for wheel in sorted(options.wheels.glob("*.whl")) if is_lacking(name_of(wheel), needed)]
    clear(options.into)
    if carried:
        install(options.into, *map(str, carried))
    missing = [requirement for name, requirement in needed.items() if not _is_met(requirement, options.into)]
    if missing:
        raise SystemExit(
            f"{sys.executable} lacks {', '.join(map(str, missing))}, and {options.wheels} has no suitable wheel. "
            "Gather wheels on a machine with a network (make gpu-wheels), and copy the folder here"
        )
    install(options.into, "--no-build-isolation", str(PROJECT))
    print(f"installed into {options.into}: WarpDrive, {', '.join(map(name_of, carried)) or 'and nothing else'}")


def clear(folder: Path) -> None:
    """Empty a folder that this program has made, or make it; end with a message for any other that is not empty."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise SystemExit(f"{folder} was not made by this program, and would be emptied: name a new folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()


def requirements() -> dict[str, Requirement]:
    """Return what WarpDrive and its tests need to run on this machine, by name."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {plain(Requirement(text).name): Requirement(text) for text in project["dependencies"]}
    for text in project["optional-dependencies"]["test"]:
        if plain(Requirement(text).name) in ALSO_NEEDED:
            found[plain(Requirement(text).name)] = Requirement(text)
    return found


def is_lacking(name: str, needed: dict[str, Requirement]) -> bool:
    """Return True if the interpreter has no package of this name, or an incompatible version."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return True
    return name in needed and not needed[name].specifier.contains(found, prereleases=True)


def _is_met(requirement: Requirement, folder: Path) -> bool:
    """Return True if the folder, or else the interpreter, satisfies the requirement."""
    carried = [found.version for found in distributions(name=requirement.name, path=[str(folder)])]
    try:
        found = carried[0] if carried else version(requirement.name)
    except PackageNotFoundError:
        return False
    return bool(requirement.specifier.contains(found, prereleases=True))


def name_of(wheel: Path) -> str:
    """Return the name of the package in a wheel."""
    return plain(wheel.name.partition("-")[0])


def plain(name: str) -> str:
    """Return the normalised name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(folder: Path, *what: str) -> None:
    """Install packages into the folder with pip, without an index and without dependencies."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--no-index", "--no-deps", "--no-warn-conflicts", f"--target={folder}", "--upgrade", *what]
    path = os.pathsep.join(filter(None, [str(folder.resolve()), os.environ.get("PYTHONPATH")]))
    if subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode:
        raise SystemExit(f"pip could not install into {folder}: {' '.join(what)}")


if __name__ == "__main__":
    main()
