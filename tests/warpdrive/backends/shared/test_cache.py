"""The cache of compiled kernels on disk: found again, never stale, never in the way."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_programs import ForkedProgram

import warpdrive as wd
from warpdrive.backends.shared import cache

KERNELS = """
from numba import cuda
import warpdrive as wd

SPEED = 2


def faster(x):
    return x * SPEED


@wd.kernel
def kernel(out):
    i = cuda.threadIdx.x
    x = faster(i)
    cuda.syncthreads()
    out[i] = x + 1
"""

MAIN = """

if __name__ == "__main__":
    import numpy as np

    out = np.zeros(4)
    kernel[1, 4](out)
    print(*map(int, out))
"""


@pytest.fixture
def start(tmp_path):
    """Give a function that starts a program in a process of its own."""
    numbers = itertools.count()

    def start(text=KERNELS, cache=tmp_path / "cache", name="program.py"):
        path = tmp_path / name
        path.write_text(text + MAIN)
        return ForkedProgram(path, tmp_path / f"output_{next(numbers)}.txt", {"WARPDRIVE_CACHE_DIR": str(cache)})

    return start


def result_of(program):
    code, said = program.result(timeout=120)
    assert code == 0, said
    return said.strip()


def files_in(folder: Path) -> dict[str, int]:
    """The files of a cache and when each was last written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def kernel_folders(folder: Path) -> list[Path]:
    """The folders of what was compiled of kernels (another holds what starts them)."""
    return [path.parent for path in folder.rglob("functions.py") if (path.parent / "kernel.py").exists()]


def test_a_second_process_compiles_nothing_and_a_changed_kernel_is_compiled_anew(start, tmp_path):
    cache = tmp_path / "cache"
    assert result_of(start()) == "1 3 5 7"
    stored = files_in(cache)
    assert any(name.endswith(".nbc") for name in stored)
    assert result_of(start()) == "1 3 5 7"
    # neither where it stands nor its comments make another kernel of it
    assert result_of(start("# a comment\n" + KERNELS, name="elsewhere.py")) == "1 3 5 7"
    assert files_in(cache) == stored
    changes = [("x + 1", "x + 2", "2 4 6 8"), ("SPEED = 2", "SPEED = 3", "1 4 7 10"), ("x * SPEED", "x - 1", "0 1 2 3")]
    for number, (old, new, expected) in enumerate(changes):
        assert result_of(start(KERNELS.replace(old, new))) == expected
        assert len(kernel_folders(cache)) == 2 + number


TWO_KERNELS = (
    KERNELS
    + """

@wd.kernel
def shifted(out):
    i = cuda.threadIdx.x
    x = faster(i)
    cuda.syncthreads()
    out[i] = x + 5
"""
)
BOTH = "\nimport numpy as np\nshifted[1, 4](np.zeros(4))\n"


def test_kernels_that_shared_a_function_are_found_one_without_the_other(start, tmp_path):
    """The function was lowered once, for the kernel that is not loaded here."""
    assert result_of(start(TWO_KERNELS + BOTH)) == "1 3 5 7"
    stored = files_in(tmp_path / "cache")
    assert result_of(start(TWO_KERNELS)) == "1 3 5 7"
    assert files_in(tmp_path / "cache") == stored


def test_two_processes_at_once(start):
    both = [start(), start()]
    assert [result_of(process) for process in both] == ["1 3 5 7"] * 2


def test_a_cache_that_cannot_be_written_is_done_without(start, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert result_of(start(cache=tmp_path / "file" / "cache")) == "1 3 5 7"


FULL = """
import errno
from numba.core import caching
from warpdrive.backends.shared import cache

write, tried = cache._store, []


def full(*given):
    tried.append(given)
    raise OSError(errno.ENOSPC, "No space left on device")


cache._store = lambda key, files, parent: full() if parent == cache.cache_folder() else write(key, files, parent)
caching.Cache.save_overload = full
"""


def test_a_full_disk_is_done_without(start, tmp_path):
    assert result_of(start(KERNELS + FULL)) == "1 3 5 7"
    assert not kernel_folders(tmp_path / "cache")


def test_numbas_own_folder_is_not_read(tmp_path):
    """Its contents are unpickled, and others may be able to write into it."""
    numbas, program = tmp_path / "numba", tmp_path / "program.py"
    numbas.mkdir()
    program.write_text(KERNELS + MAIN)
    folders = {"WARPDRIVE_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(numbas)}
    done = subprocess.run([sys.executable, program], env={**os.environ, **folders}, text=True, capture_output=True)
    assert done.stdout == "1 3 5 7\n", done.stderr
    assert not list(numbas.iterdir())


DAMAGES = {
    "no python": lambda folder: (folder / "kernel.py").write_text("damaged ("),
    "empty": lambda folder: (folder / "kernel.py").write_text(""),
    "functions lost": lambda folder: (folder / "functions.py").unlink(),
    "machine code cut": lambda folder: [path.write_bytes(path.read_bytes()[:100]) for path in folder.rglob("*.nbc")],
    "index cut": lambda folder: [path.write_bytes(path.read_bytes()[:30]) for path in folder.rglob("*.nbi")],
}


def test_a_damaged_cache_is_repaired(start, tmp_path):
    assert result_of(start()) == "1 3 5 7"
    (folder,) = kernel_folders(tmp_path / "cache")
    sound = files_in(folder).keys()
    for damage in DAMAGES.values():
        damage(folder)
        assert result_of(start()) == "1 3 5 7"
        assert files_in(folder).keys() == sound


def test_damage_to_what_starts_kernels_is_repaired_too(start, tmp_path):
    assert result_of(start()) == "1 3 5 7"
    sound = files_in(tmp_path / "cache")
    for path in (tmp_path / "cache").rglob("*.py"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert result_of(start()) == "1 3 5 7"
    assert files_in(tmp_path / "cache").keys() == sound.keys()


@pytest.mark.parametrize("file", ["kernels/inline.py", "backends/cpu/generate.py", "backends/host/intrinsics.py"])
def test_keys_depend_on_the_files_that_code_comes_from(file, monkeypatch):
    read, before = Path.read_bytes, cache.key_of("kernel")

    def changed(path):
        return read(path) + b"#" * (path == Path(wd.__file__).parent / file)

    monkeypatch.setattr(Path, "read_bytes", changed)
    cache._own_content.cache_clear()
    found = cache.key_of("kernel")
    monkeypatch.undo()
    cache._own_content.cache_clear()
    assert found != before == cache.key_of("kernel")
