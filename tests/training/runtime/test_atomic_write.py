"""Renaming files that other processes have open, as on Windows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdrive.training.runtime import atomic_write
from warpdrive.training.runtime.atomic_write import write_atomically


class _InUseError(PermissionError):
    winerror = 32


@pytest.mark.parametrize("looks", [1, 4, None])
def test_a_file_that_others_read_is_replaced_once_they_close_it(
    looks: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader, such as a virus scanner, has it open at the first ``looks``; None: at all of them."""
    rename, tried = os.replace, []

    def replace(source: Path, target: Path) -> None:
        tried.append(target)
        if looks is None or len(tried) <= looks:
            raise _InUseError(13, "in use")
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(atomic_write, "_BETWEEN_TRIES", 0.0)
    (tmp_path / "file").write_text("former")
    if looks is None:
        with pytest.raises(OSError, match="in use"):
            write_atomically(tmp_path / "file", "new")
    else:
        write_atomically(tmp_path / "file", "new")
        assert len(tried) == looks + 1
    assert (tmp_path / "file").read_text() == ("former" if looks is None else "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_writers_at_the_same_time_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.replace

    def replace(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", rename)
        write_atomically(tmp_path / "file", "of another")
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    write_atomically(tmp_path / "file", "own")
    assert (tmp_path / "file").read_text() == "own"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_other_errors_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_write.time, "sleep", lambda seconds: pytest.fail("waited"))
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file", "new")
