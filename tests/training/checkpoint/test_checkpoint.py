"""Checkpoint folders: atomic, with detection of damage."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from warpdrive.errors import CheckpointError
from warpdrive.training.checkpoint import checkpoint
from warpdrive.training.checkpoint.checkpoint import (
    Checkpoint,
    Keep,
    find_checkpoint,
    last_undamaged,
    read_checkpoint,
    remove_incomplete,
    save_in_run,
    write_checkpoint,
)


def example(number: float = 1.0) -> Checkpoint:
    return Checkpoint(
        config={"name": "example", "trainer": {"num_envs": 2}},
        spaces={"tagger": {"action": {"type": "Discrete", "n": 2, "start": 0}}},
        models={"tagger": {"weight": torch.full((2, 3), number)}, "red/blue": {"bias": torch.tensor([number])}},
        state={"updates": 3, "optimizers": {"tagger": {"state": {0: {"step": torch.tensor(1.0)}}, "groups": [1]}}},
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "deep" / "one", example(0.1))
    found = read_checkpoint(tmp_path / "deep" / "one")
    assert found.config == example().config and found.spaces == example().spaces
    assert torch.equal(found.models["tagger"]["weight"], torch.full((2, 3), 0.1))
    assert torch.equal(found.models["red/blue"]["bias"], torch.tensor([0.1]))
    assert found.state == example().state
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["one"], "nothing is left beside it"


@pytest.mark.parametrize("first", [".", "", "{folder}", "{folder}/../here"])
def test_a_git_in_the_working_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    program = folder / "git"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho commit\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", first.format(folder=folder) + os.pathsep + os.environ["PATH"])
    monkeypatch.chdir(folder)
    git_hash = checkpoint._git_hash.__wrapped__  # without the cache
    git_hash()
    assert not (tmp_path / "ran").exists()
    if "folder" in first:
        monkeypatch.chdir(tmp_path)  # a folder of PATH like any other
        assert git_hash() == "commit"


def test_policies_have_files_of_their_own_on_windows_and_macos(tmp_path: Path) -> None:
    """There, names that differ in case only are one file, and some names are devices."""
    tags = ["Fox", "fox", "FOX", "aux", "NUL.1", "red/blue"]
    models = {tag: {"weight": torch.tensor([float(number)])} for number, tag in enumerate(tags)}
    write_checkpoint(tmp_path / "one", replace(example(), models=models))
    names = [path.name for path in (tmp_path / "one").glob("*.safetensors")]
    assert len({name.lower() for name in names}) == len(tags)
    assert not {name.lower().partition(".")[0] for name in names} & {"aux", "nul"}
    assert {"Fox.safetensors", "red%2Fblue.safetensors"} <= set(names)
    assert {tag: model["weight"].item() for tag, model in read_checkpoint(tmp_path / "one").models.items()} == {
        tag: number for number, tag in enumerate(tags)
    }


def test_files_of_older_checkpoints_are_named_by_any_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {tag: {"weight": torch.tensor([float(number)])} for number, tag in enumerate(("aux", "AUX"))}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_model_files", lambda tags: {tag: f"{tag}.safetensors" for tag in tags})
        write_checkpoint(tmp_path / "one", replace(example(), models=models))
    assert [model["weight"].item() for model in read_checkpoint(tmp_path / "one").models.values()] == [0.0, 1.0]


def test_a_changed_bit_of_the_manifest_is_noticed(tmp_path: Path) -> None:
    """Flips one bit of every byte, in turn."""
    write_checkpoint(tmp_path / "one", example())
    path = tmp_path / "one" / "manifest.json"
    sound = path.read_bytes()
    for place in range(len(sound)):
        changed = bytearray(sound)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"manifest\.json"):
            read_checkpoint(tmp_path / "one")


@pytest.mark.parametrize("kept", [[], ["trainer.pt"], ["tagger.safetensors", "red%2Fblue.safetensors"]])
def test_a_manifest_without_checksums_turns_no_check_off(tmp_path: Path, kept: list[str]) -> None:
    write_checkpoint(tmp_path / "one", example())
    path = tmp_path / "one" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    manifest["files"] = {name: manifest["files"][name] for name in kept}
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="damaged: its checksum"):
        read_checkpoint(tmp_path / "one")


def test_a_manifest_from_before_it_had_a_checksum_is_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "one", example(0.5))
    path = tmp_path / "one" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    path.write_text(json.dumps(manifest, indent=2) + "\n")
    assert torch.equal(read_checkpoint(tmp_path / "one").models["tagger"]["weight"], torch.full((2, 3), 0.5))


def test_what_looks_like_a_checkpoint_and_is_none_is_left_alone(tmp_path: Path) -> None:
    run_with_two(tmp_path)
    for name in ("step_256_backup", "step_", "step_x"):
        (tmp_path / "checkpoints" / name).mkdir()
    (tmp_path / "checkpoints" / "step_999").write_text("a file")
    assert find_checkpoint(tmp_path).name == "step_200"


def test_a_checkpoint_is_found_by_its_pointer(tmp_path: Path) -> None:
    run_with_two(tmp_path)
    (tmp_path / "config.yaml").write_text("name: run\n")
    for name, folder in (("latest", "step_200"), ("best", "step_100")):
        (tmp_path / "checkpoints" / name).write_text(f"{folder}\n")
        assert find_checkpoint(tmp_path / "checkpoints" / name).name == folder


def test_the_manifest_says_what_made_it(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "one", example())
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["versions"]["torch"] == torch.__version__.split("+")[0] or manifest["versions"]["torch"]
    assert set(manifest["files"]) == {"tagger.safetensors", "red%2Fblue.safetensors", "trainer.pt"}


def test_a_checkpoint_is_replaced_but_nothing_else_is(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "one", example(1.0))
    write_checkpoint(tmp_path / "one", example(2.0))
    assert read_checkpoint(tmp_path / "one").models["tagger"]["weight"][0, 0] == 2.0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        write_checkpoint(tmp_path / "mine", example())
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("moment", ["saved", "renamed"])
def test_a_failed_write_leaves_the_former_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write_checkpoint(tmp_path / "one", example(1.0))
    rename = os.replace

    def no_space(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    def replace_unless_new(source: Path, target: Path) -> None:
        return no_space() if (source / "manifest.json").stat().st_mtime > former else rename(source, target)

    if moment == "saved":
        monkeypatch.setattr(torch, "save", no_space)
    else:
        former = (tmp_path / "one" / "manifest.json").stat().st_mtime
        monkeypatch.setattr(os, "replace", replace_unless_new)
    with pytest.raises(
        CheckpointError, match=r"no space left on device: .*one needs about 0\.00 MB, but only .* are free"
    ):
        write_checkpoint(tmp_path / "one", example(2.0))
    assert read_checkpoint(tmp_path / "one").models["tagger"]["weight"][0, 0] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_full_disk_is_told_where_there_is_no_folder_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", no_space)
    with pytest.raises(CheckpointError, match=r"no space left on device: .*one needs about"):
        write_checkpoint(tmp_path / "new" / "one", example())


def test_file_systems_that_sync_no_folders_have_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def sync_files(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(22, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", sync_files)
    write_checkpoint(tmp_path / "one", example())
    assert read_checkpoint(tmp_path / "one").config == example().config


@pytest.mark.skipif(os.name == "nt", reason="limits of files")
@pytest.mark.parametrize("large", ["models", "state"])
def test_a_full_disk_is_told_in_a_line(tmp_path: Path, large: str) -> None:
    """A limit for the size of files is met in the middle of a file, as the end of a disk is."""
    checkpoints = run_with_two(tmp_path).parent
    import resource  # not on Windows

    many = torch.zeros(100_000)
    parts = {"models": {"tagger": {"weight": many}}} if large == "models" else {"state": {"simulation": many}}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CheckpointError) as raised:
            save_in_run(checkpoints, 300, replace(example(3.0), **parts), Keep(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    told = str(raised.value)
    assert told.startswith("file size limit exceeded (ulimit -f): ")
    assert (
        "step_300 needs about 0.40 MB, but only " in told
        and "step_200, is intact: free some space and resume from" in told
    )
    found = last_undamaged(checkpoints)
    assert (
        found
        and found[0].name == "step_200"
        and {path.name for path in checkpoints.glob("*step*")} == {"step_100", "step_200"}
    )


def run_with_two(path: Path) -> Path:
    (path / "config.yaml").write_text("name: example\n")
    save_in_run(path / "checkpoints", 100, example(1.0), Keep(3))
    save_in_run(path / "checkpoints", 200, example(2.0), Keep(3))
    return path / "checkpoints" / "step_200"


@pytest.mark.parametrize("name", ["trainer.pt", "tagger.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "cut short", "one bit flipped", "empty"])
def test_damage_is_told_with_the_file_and_what_to_do(tmp_path: Path, name: str, damage: str) -> None:
    path = run_with_two(tmp_path) / name
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "cut short":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "one bit flipped":
        content[0] ^= 1
        path.write_bytes(content)
    elif damage == "empty":
        path.write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(find_checkpoint(tmp_path))
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    assert message.endswith("use another checkpoint of the run: step_100")


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "one", example())
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    (tmp_path / "one" / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(CheckpointError, match="found checkpoint format 99"):
        read_checkpoint(tmp_path / "one")


@pytest.mark.parametrize("cause", ["a later version", "the disk"])
def test_what_may_be_undamaged_is_neither_skipped_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    last = run_with_two(tmp_path)
    if cause == "the disk":
        fingerprint = checkpoint._fingerprint

        def unreadable(path: Path) -> dict[str, Any]:
            if path.parent == last:
                raise OSError(5, "Input/output error")
            return fingerprint(path)

        monkeypatch.setattr(checkpoint, "_fingerprint", unreadable)
    else:
        manifest = json.loads((last / "manifest.json").read_text())
        (last / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    for read in (last_undamaged, lambda folder: remove_incomplete(folder, 100)):
        with pytest.raises(CheckpointError, match=r"step_200/.*(found checkpoint format 99|Input/output error)"):
            read(last.parent)
    assert (last / "trainer.pt").is_file()


def test_a_file_larger_than_the_memory_has_a_checksum(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(20_000_000))
    tracemalloc.start()
    found = checkpoint._fingerprint(tmp_path / "large")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == {"bytes": 20_000_000, "sha256": hashlib.sha256(bytes(20_000_000)).hexdigest()}
    assert peak < 5_000_000


def test_the_last_k_are_kept_by_number(tmp_path: Path) -> None:
    for step in (8, 9, 10, 11):  # 10 comes after 9, which an order by name would get wrong
        save_in_run(tmp_path / "checkpoints", step, example(), Keep(2))
    kept = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert kept == {"step_10", "step_11", "latest"}
    (tmp_path / "config.yaml").write_text("name: example\n")
    assert find_checkpoint(tmp_path).name == "step_11"


@pytest.mark.parametrize("which", ["rename", "remove"])
def test_an_old_checkpoint_that_others_read_ends_no_training(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows its folder cannot be renamed, from NFS its files cannot be removed; what is left is removed later."""
    rename, unlink = os.replace, os.unlink

    def unlink_in_use(path: Any, **options: Any) -> None:
        if Path(path).name == "trainer.pt":
            raise OSError(16, "Device or resource busy")
        unlink(path, **options)

    def replace_in_use(source: Path, target: Path) -> None:
        if Path(source).name == "step_1":
            raise PermissionError(13, "in use", str(source))
        rename(source, target)

    with monkeypatch.context() as patch:
        if which == "rename":
            patch.setattr(os, "replace", replace_in_use)
        else:
            patch.setattr(os, "unlink", unlink_in_use)
        for steps in (1, 2):
            save_in_run(tmp_path, steps, example(), Keep(1))
    kept = {"step_1", "step_2"} if which == "rename" else {"step_2"}
    assert {path.name for path in tmp_path.glob("step_*")} == kept
    assert len(list(tmp_path.glob(".*.part"))) == (which == "remove")
    remove_incomplete(tmp_path, 2)
    save_in_run(tmp_path, 3, example(), Keep(1))
    assert {path.name for path in tmp_path.iterdir()} == {"step_3", "latest"}


def test_a_checkpoint_is_found_where_the_run_was_killed_before_it_was_called_the_latest(tmp_path: Path) -> None:
    for step in (9, 10):
        save_in_run(tmp_path / "checkpoints", step, example(), Keep(2))
    (tmp_path / "config.yaml").write_text("name: example\n")
    (tmp_path / "checkpoints" / "latest").unlink()
    assert find_checkpoint(tmp_path).name == "step_10"


def test_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="absent: neither a run folder"):
        find_checkpoint(tmp_path / "absent")
    (tmp_path / "config.yaml").write_text("name: example\n")
    with pytest.raises(CheckpointError, match="ended before its first one"):
        find_checkpoint(tmp_path)


def test_the_first_checkpoints_after_multiples_stay(tmp_path):
    for step in range(60, 700, 60):
        save_in_run(tmp_path / "checkpoints", step, example(), Keep(last=2, every=200))
    kept = sorted(int(folder.name.removeprefix("step_")) for folder in (tmp_path / "checkpoints").glob("step_*"))
    assert kept == [240, 420, 600, 660], "after 200, 400 and 600, and the last two"
