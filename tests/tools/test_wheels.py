"""Wheels for a machine without a network: their selection, and the installation of missing packages."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from paths import ROOT

TOOLS = ROOT / "tools"
sys.path.append(str(TOOLS))

pytest.importorskip("tomllib", reason="the tools need Python 3.11")
gather_wheels = importlib.import_module("gather_wheels")
install_offline = importlib.import_module("install_offline")


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), size: int = 0) -> Path:
    """Write a wheel with one module, which has a number."""
    plain = name.replace("-", "_")
    path = folder / f"{plain}-{version}-py3-none-any.whl"
    info = f"{plain}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{plain}.py", f"VERSION = {version!r}\n" + "#" * size)
        archive.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_what_is_needed_is_gathered_with_what_that_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    of_gymnasium = ("farama-notifications>=0", "numpy>=1", 'colorama; sys_platform == "win32"')
    needs = {"gymnasium": of_gymnasium, "pytest": ("pluggy",)}

    def download(requirements: list[str], folder: Path, python: str) -> None:
        names = [gather_wheels.Requirement(text).name for text in requirements]
        asked.append(names)
        for name in names:
            wheel(folder, name, "1.0", needs.get(name, ()))

    monkeypatch.setattr(gather_wheels, "_download", download)
    gather_wheels._gather(tmp_path, "3.12", gather_wheels.PRESENT | {"rich"})
    assert {"gymnasium", "pydantic", "pytest", "siphash24", "matplotlib"} <= set(asked[0])
    assert {"torch", "numba", "numpy", "numba-cuda", "cuda-toolkit", "rich", "nbclient"}.isdisjoint(asked[0])
    assert "warpdrive" not in asked[0]  # the extra `test` names another extra
    assert [sorted(names) for names in asked[1:]] == [["farama-notifications", "pluggy"]]


def test_what_pip_list_prints_need_not_be_carried() -> None:
    printed = "Package           Version\n----------------- -------\nRuamel.Yaml_x     1.0\nnumpy==2.5\n"
    assert {"ruamel-yaml-x", "numpy"} <= gather_wheels._names_in(printed)


def test_the_total_is_told_and_too_much_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel(tmp_path, "one", "1.0", size=2_000_000)
    gather_wheels._report(tmp_path)
    assert "2.0 MB  1 wheels" in capsys.readouterr().out
    wheel(tmp_path, "two", "1.0").write_bytes(b"0" * 60_000_000)
    with pytest.raises(SystemExit, match="more than 60 MB"):
        gather_wheels._report(tmp_path)


def test_a_package_that_is_there_is_not_replaced_unless_it_is_too_old() -> None:
    needed = install_offline.requirements()
    assert {"torch", "numba", "pydantic", "pytest", "setuptools"} <= needed.keys() and "nbclient" not in needed
    assert not install_offline.is_lacking("pytest", needed)
    assert install_offline.is_lacking("no-such-package-anywhere", needed)
    needed["pytest"] = install_offline.Requirement("pytest>=1000")
    assert install_offline.is_lacking("pytest", needed)


def test_wheels_that_are_lacking_are_installed_with_warpdrive_into_a_folder(tmp_path: Path) -> None:
    """Without an index, and beside the interpreter's own packages."""
    wheels, into = tmp_path / "wheels", tmp_path / "offline"
    wheels.mkdir()
    wheel(wheels, "carried-for-a-test", "1.5")
    wheel(wheels, "pytest", "0.1")  # is there already
    install_offline.clear(into)
    (into / "of_a_former_installation.py").touch()
    command = [sys.executable, TOOLS / "install_offline.py", "--wheels", wheels, "--into", into]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "WarpDrive, carried-for-a-test\n" in result.stdout
    assert not (into / "of_a_former_installation.py").exists()
    program = (
        "import carried_for_a_test, warpdrive, warpdrive.envs; print(carried_for_a_test.VERSION, warpdrive.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(into), "PYTHONSAFEPATH": "1"}
    printed = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stdout
    assert printed.split() == ["1.5", str(into / "warpdrive" / "__init__.py")]


def test_folders_keep_what_the_tools_have_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "numpy-2.0.dist-info").mkdir()
    with pytest.raises(SystemExit, match="was not made by this program, and would be emptied"):
        install_offline.clear(tmp_path)
    former = wheel(tmp_path, "former", "1.0")
    monkeypatch.setattr(gather_wheels, "_gather", lambda folder, python, present: wheel(folder, "new", "1.0"))
    monkeypatch.setattr(sys, "argv", ["gather_wheels.py", "--folder", str(tmp_path), "--no-pycuda"])
    gather_wheels.main()
    assert not former.exists() and {path.name for path in tmp_path.iterdir()} == {
        "thesis.txt",
        "numpy-2.0.dist-info",
        "new-1.0-py3-none-any.whl",
    }


def test_what_nobody_has_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"no-such-package": install_offline.Requirement("no-such-package>=2")}
    monkeypatch.setattr(install_offline, "requirements", lambda: needed)
    monkeypatch.setattr(sys, "argv", ["install_offline.py", "--wheels", str(tmp_path), "--into", str(tmp_path / "x")])
    with pytest.raises(SystemExit, match=r"lacks no-such-package>=2, .*make gpu-wheels"):
        install_offline.main()
