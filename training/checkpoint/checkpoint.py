"""Checkpoints: folders that are written atomically, with checksums to detect damage.

step_<n>/
    manifest.json            format, configuration, spaces, versions, sizes and checksums of the files below
    <tag>.safetensors        parameters of one policy; see ``_model_files``
    trainer.pt               optimizers, replay buffers, counters, random states, the simulation
                             (torch.load(weights_only=True))

A checkpoint is written under another name, synchronised to disk and renamed; before it is deleted it is renamed. A
folder named ``step_<n>`` is thus complete at any time. ``manifest.json`` holds sizes and checksums of all files, and of
itself (``_with_checksum``); files or keys that it does not list are damage. Manifests of versions without a checksum of
their own are accepted.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from urllib.parse import quote

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors.torch import load_file, save
from torch import Tensor

from warpdrive import __version__
from warpdrive.arguments import check_path
from warpdrive.errors import CheckpointError, one_line, shown
from warpdrive.training.checkpoint.run_folder import RunFolder, find_run
from warpdrive.training.runtime.atomic_write import no_room, replace_file, replace_non_finite, sync, write_atomically

_FORMAT = 3
_MANIFEST, _STATE = "manifest.json", "trainer.pt"
_NO_CHECKSUM = "0" * 64
_INFINITE = "\0inf"
"""Placeholder of an infinite number in JSON; configurations have no NUL characters."""
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
LATEST, BEST = "latest", "best"
"""Files in the folder of a run's checkpoints, each with the name of one of them."""
Which = Literal["latest", "best"]


class _UnreadableError(CheckpointError):
    """A checkpoint that cannot be read, but may be undamaged: it is neither skipped nor removed."""


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a checkpoint.

    Attributes:
        config: Run configuration as a dictionary.
        spaces: ``observation`` and ``action`` space by policy tag with a model, see ``space_description``.
        models: Parameters by name, for each policy tag.
        state: Remaining state of the trainer: tensors, numbers, strings, and lists and dictionaries of these.
    """

    config: dict[str, Any]
    spaces: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, Mapping[str, Tensor]]
    state: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint next to ``folder``, sync it to disk and rename it into place.

    Raises:
        CheckpointError: If ``folder`` exists and is not a checkpoint, or cannot be written.
    """
    if folder.exists() and not (folder / _MANIFEST).is_file():
        raise CheckpointError(f"{folder}: exists and is not a checkpoint; choose another folder")
    beside = _temporary_folder(folder)
    try:
        beside.mkdir(parents=True)
        names = _model_files(checkpoint.models)
        for tag, parameters in checkpoint.models.items():
            on_host = {name: value.detach().cpu().contiguous() for name, value in parameters.items()}
            (beside / names[tag]).write_bytes(save(on_host))
        with (beside / _STATE).open("wb") as file:
            _save_state(checkpoint.state, file)
        manifest = {
            "format": _FORMAT,
            "config": checkpoint.config,
            "policies": list(checkpoint.models),
            "spaces": checkpoint.spaces,
            "versions": _versions(),
            "git": _git_hash(),
            "files": {path.name: _fingerprint(path) for path in sorted(beside.iterdir())},
        }
        (beside / _MANIFEST).write_text(_with_checksum(manifest), encoding="utf-8")
        for path in (*beside.iterdir(), beside):
            sync(path)
        with _set_aside(folder):
            replace_file(beside, folder)
        sync(folder.parent)
    except OSError as error:
        full = no_room(error)
        shutil.rmtree(beside, ignore_errors=True)  # before measuring the free space
        raise CheckpointError(
            _full_disk_message(folder, checkpoint, full) if full else f"{folder}: cannot be written: {error.strerror}"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _save_state(state: Mapping[str, Any], file: IO[bytes]) -> None:
    """Save like ``torch.save``, but raise the original ``OSError`` of a file, which PyTorch replaces."""
    failures: list[OSError] = []

    class Writer:
        def write(self, content: bytes) -> int:
            try:
                return file.write(content)
            except OSError as error:
                failures.append(error)
                raise

        def flush(self) -> None:
            file.flush()

    try:
        torch.save(state, Writer())  # type: ignore[arg-type]  # all that it needs of a file
    except RuntimeError:
        if failures:
            raise failures[0] from None
        raise


def _full_disk_message(folder: Path, checkpoint: Checkpoint, full: str) -> str:
    needed = _bytes_of([checkpoint.models, checkpoint.state])
    free = shutil.disk_usage(next(path for path in folder.parents if path.exists())).free
    last = latest_of(folder.parent) if folder.name.startswith("step_") else None
    stays = f"; the previous checkpoint, {last}, is intact: free some space and resume from it" if last else ""
    return f"{full}: {folder} needs about {needed / 1e6:.2f} MB, but only {free / 1e6:.2f} MB are free{stays}"


def _bytes_of(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.nbytes
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(_bytes_of, parts))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU, whatever device it was written on.

    Raises:
        CheckpointError: If a file is missing or its checksum differs.
    """
    return with_state(folder, read_models(folder))


def with_state(folder: Path, models: Checkpoint) -> Checkpoint:
    """Return the result of :func:`read_models` with the ``state`` of the checkpoint.

    Raises:
        CheckpointError: If its file is missing or its checksum differs.
    """
    path = folder / _STATE
    _check_file(path, _read_manifest(folder))
    with _reading(path):
        state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or not state:
        raise CheckpointError(f"{path}: found {shown(state)}, expected the state of a trainer")
    return replace(models, state=state)


def read_models(folder: Path) -> Checkpoint:
    """Read the models of a checkpoint, without its ``state``, whose file may be damaged.

    Raises:
        CheckpointError: If a file is missing or its checksum differs.
    """
    manifest = _read_manifest(folder)
    models, names = {}, _model_files(manifest.policies)
    for tag in manifest.policies:
        former = quote(tag, safe="") + ".safetensors"  # of any tag, in older checkpoints
        path = folder / (former if former in manifest.files else names[tag])
        _check_file(path, manifest)
        with _reading(path):
            models[tag] = load_file(path)
    return Checkpoint(config=manifest.config, spaces=manifest.spaces, models=models, state={})


def save_in_run(checkpoints: Path, env_steps: int, checkpoint: Checkpoint, keep: Keep, best: int | None = None) -> Path:
    """Write ``checkpoints/step_<env_steps>``, update ``latest``, and remove checkpoints that are not to be kept.

    Args:
        checkpoints: Folder of the run's checkpoints.
        env_steps: Environment steps of the checkpoint.
        checkpoint: Contents.
        keep: Checkpoints to keep.
        best: Environment steps of the best checkpoint, if there is one: it is kept, and named by ``best``.

    Returns:
        The folder of the checkpoint.
    """
    folder = checkpoints / f"step_{env_steps}"
    write_checkpoint(folder, checkpoint)
    write_pointer(folder, LATEST)
    if best is not None:
        write_pointer(checkpoints / f"step_{best}", BEST)
    remove_old(checkpoints, keep, best)
    return folder


class Keep(NamedTuple):
    """Checkpoints of a run to keep: the last ones and, with ``every``, the first after each multiple of that."""

    last: int
    every: int | None = None


def remove_old(checkpoints: Path, keep: Keep, best: int | None) -> None:
    """Remove old checkpoints of a run.

    Args:
        checkpoints: Folder of the run's checkpoints.
        keep: Checkpoints to keep.
        best: Environment steps of the best checkpoint, which is also kept, or None.
    """
    found, multiples = _by_age(checkpoints), set()
    for index, folder in enumerate(found):
        steps = _env_steps(folder)
        multiple = None if keep.every is None else steps // keep.every
        stays = multiple is not None and multiple > 0 and multiple not in multiples
        multiples.add(multiple)
        if index < len(found) - keep.last and steps != best and not stays:
            with suppress(OSError):  # it is tried again after the next checkpoint
                _remove(folder)


def write_pointer(folder: Path, name: str) -> None:
    """Write the name of a checkpoint to the file ``name`` in the same folder, if it differs."""
    pointer = folder.with_name(name)
    text = folder.name + "\n"
    if not pointer.is_file() or pointer.read_text(encoding="utf-8") != text:
        write_atomically(pointer, text)


def find_checkpoint(path: str | Path, which: Which = "latest") -> Path:
    """Return the checkpoint folder given, or the latest or best checkpoint of a run (see ``find_run``).

    Raises:
        CheckpointError: If there is none.
    """
    if which == "best":
        return _best_of(find_run(path))
    if which != "latest":
        raise CheckpointError(f"found which = {shown(which)}, expected 'latest' or 'best'")
    check_path(path=path)
    path = Path(path)
    if path.parent.name == "checkpoints" and path.name in (LATEST, BEST) and os.path.isfile(path):
        return find_checkpoint(path.parent.parent, "best" if path.name == BEST else "latest")
    if os.path.exists(path / _MANIFEST) or path.parent.name == "checkpoints":
        return path
    run = find_run(path)
    last = latest_of(run.checkpoints)  # not what ``latest`` says: a run may be killed before that is written
    if last is None:
        raise CheckpointError(f"{run.path}: the run has no checkpoint; it ended before its first one")
    return last


def latest_of(checkpoints: Path) -> Path | None:
    """Return the last checkpoint of a run, or None; it is not checked for damage."""
    return next(reversed(_by_age(checkpoints)), None)


def _best_of(run: RunFolder) -> Path:
    pointer = run.checkpoints / BEST
    name = pointer.read_bytes()[:100].decode(errors="replace").strip() if pointer.is_file() else ""
    folder = next((path for path in _by_age(run.checkpoints) if path.name == name), None)
    if name and folder is None:
        raise CheckpointError(f"{pointer}: found {shown(name)}, which is not a checkpoint of the run")
    if folder is None:
        raise CheckpointError(
            f"{run.path}: the run has no best checkpoint, as it was not evaluated during training: set "
            "trainer.evaluation.every, to at most the number of updates, and saving.keep_best"
        )
    return folder


def last_undamaged(checkpoints: Path) -> tuple[Path, Checkpoint] | None:
    """Return the last undamaged checkpoint of a run, or None if there is no checkpoint.

    Raises:
        CheckpointError: If there are checkpoints, and all of them are damaged; or one that may be undamaged cannot be
            read, such as one of a later version.
    """
    damage: CheckpointError | None = None
    for folder in reversed(_by_age(checkpoints)):
        try:
            return folder, read_checkpoint(folder)
        except _UnreadableError:
            raise
        except CheckpointError as error:
            damage = damage or error
    if damage:
        raise damage
    return None


def remove_incomplete(checkpoints: Path, env_steps: int) -> None:
    """Remove partial writes of a killed process, and damaged checkpoints from later than ``env_steps``.

    Raises:
        CheckpointError: If there is a later undamaged checkpoint: the run has been continued since.
    """
    for half in (*checkpoints.glob(".*.part"), *checkpoints.parent.glob(".*.part")):
        if half.is_dir():
            shutil.rmtree(half, ignore_errors=True)
        else:
            half.unlink(missing_ok=True)
    for folder in _by_age(checkpoints):
        if _env_steps(folder) > env_steps:
            try:
                read_checkpoint(folder)
            except _UnreadableError:
                raise
            except CheckpointError:
                _remove(folder)
            else:
                raise CheckpointError(
                    f"{folder}: the run has continued to this checkpoint and cannot resume from step {env_steps}; "
                    "to resume from that step anyway, move the later checkpoints elsewhere"
                )


def _model_files(tags: Iterable[str]) -> dict[str, str]:
    """Return the file name of each policy's parameters: its tag, quoted as in a URL.

    All characters are quoted in names that differ in case only, which are one file on Windows and macOS, and in names
    of devices on Windows.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for tag in tags:
        name = quote(tag, safe="")
        if name.lower().partition(".")[0] in _DEVICES or name.lower() in taken:
            name = "".join(f"%{byte:02X}" for byte in tag.encode(errors="surrogatepass"))
        taken.add(name.lower())
        names[tag] = f"{name}.safetensors"
    return names


def _by_age(checkpoints: Path) -> list[Path]:
    named = (path for path in checkpoints.glob("step_*") if path.name.removeprefix("step_").isdecimal())
    return sorted((path for path in named if path.is_dir()), key=_env_steps)


def _env_steps(folder: Path) -> int:
    return int(folder.name.removeprefix("step_"))


def _temporary_folder(folder: Path) -> Path:
    """Return the temporary folder of a checkpoint that is being written."""
    return folder.with_name(f".{folder.name}.{os.getpid()}.part")


def _remove(folder: Path) -> None:
    """Remove a checkpoint, if it exists, atomically: it is renamed first.

    Files that another process reads cannot be removed on Windows and from NFS: :func:`remove_incomplete` removes them.
    """
    with _set_aside(folder):
        pass


@contextmanager
def _set_aside(folder: Path) -> Iterator[None]:
    """Rename a checkpoint, if it exists, for the block, and remove it then; after an error it has its name again."""
    aside = _temporary_folder(folder).with_suffix(".old.part")
    if folder.exists():
        replace_file(folder, aside)
    try:
        yield
    except BaseException:
        if aside.exists():
            replace_file(aside, folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _advice(folder: Path) -> str:
    others = [path.name for path in _by_age(folder.parent) if path != folder]
    return (
        f"use another checkpoint of the run: {', '.join(others[-5:])}" if others else "train again, or restore a copy"
    )


def _check_file(path: Path, manifest: _Manifest) -> None:
    """Check that a file exists and has the checksum of the manifest.

    Raises:
        CheckpointError: If it does not exist, differs, or is not listed.
    """
    if not os.path.isfile(path):  # also of a name that no file can have
        raise CheckpointError(f"{one_line(str(path))}: missing from the checkpoint; {_advice(path.parent)}")
    with _reading(path):
        found = _fingerprint(path)
    if found != manifest.files.get(path.name):
        raise CheckpointError(
            f"{path}: damaged: its checksum differs from the one in manifest.json; {_advice(path.parent)}"
        )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Add the file name to errors of the libraries that read it, which may raise anything."""
    try:
        yield
    except Exception as error:
        reason = one_line(str(error), 150)
        raise _UnreadableError(f"{path}: cannot be read: {reason}; {_advice(path.parent)}") from error


def _fingerprint(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):  # replay buffers may be larger than the free memory
            digest.update(part)
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


class _Manifest(BaseModel):
    """Contents of ``manifest.json``. Unknown keys indicate damage."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int
    config: dict[str, Any]
    policies: list[str]
    spaces: dict[str, dict[str, dict[str, Any]]]
    files: dict[str, dict[str, int | str]]
    versions: dict[str, str] = {}
    git: str | None = None
    sha256: str | None = None
    """Checksum of the manifest itself, computed with zeros in this place; None in older manifests."""


def _with_checksum(manifest: Mapping[str, Any]) -> str:
    """Return the text of a manifest, with its own checksum."""
    values = replace_non_finite({**manifest, "sha256": _NO_CHECKSUM}, _placeholder)
    text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    text = text.replace(json.dumps(_INFINITE), "1e999").replace(json.dumps(f"-{_INFINITE}"), "-1e999")
    return text.replace(_NO_CHECKSUM, _digest(text))


def _placeholder(number: float) -> Any:
    """Return the placeholder of an infinity, for which JSON has numbers too large for a float only; NaN is refused."""
    return number if math.isnan(number) else f"{'-' if number < 0 else ''}{_INFINITE}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_manifest(folder: Path) -> _Manifest:
    path = folder / _MANIFEST
    if not path.is_file():
        raise CheckpointError(f"{path}: missing from the checkpoint; {_advice(folder)}")
    try:
        text = path.read_text(encoding="utf-8")
        raw = json.loads(text)
    except OSError as error:
        raise _UnreadableError(f"{path}: cannot be read: {error.strerror}; {_advice(folder)}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: damaged; {_advice(folder)}") from None
    made_by = raw.get("format") if isinstance(raw, dict) else None
    if type(made_by) is int and made_by != _FORMAT:
        kind = _UnreadableError if made_by > _FORMAT else CheckpointError
        raise kind(f"{path}: found checkpoint format {shown(made_by)}, this version of WarpDrive reads {_FORMAT}")
    try:
        manifest = _Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "all of it"
        description = f"{one_line(place)} is {shown(first['input'])}, which is not what was saved"
        raise CheckpointError(f"{path}: damaged: {description}; {_advice(folder)}") from None
    if manifest.sha256 is not None and _digest(text.replace(manifest.sha256, _NO_CHECKSUM)) != manifest.sha256:
        raise CheckpointError(f"{path}: damaged: its checksum is wrong; {_advice(folder)}")
    return manifest.model_copy(update={"config": complete_config(manifest.config)})


def complete_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's configuration completed with keys that did not exist when it was written."""
    policies = config.get("policy")
    if not isinstance(policies, dict):
        return config
    return {**config, "policy": {tag: _complete_section(settings) for tag, settings in policies.items()}}


def _complete_section(settings: Any) -> Any:
    if not isinstance(settings, dict) or settings.get("algorithm") not in ("reinforce", "a2c", "ppo", "custom"):
        return settings
    model = settings.get("model")
    return {**settings, "model": {"normalize_actions": False, **model}} if isinstance(model, dict) else settings


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("torch", "numba", "numpy")}
    return {"warpdrive": __version__, "python": platform.python_version(), **packages}


@cache
def _git_hash() -> str | None:
    git = shutil.which("git")
    try:
        # Windows, and a PATH with ".", find a program in the working directory first
        if git is None or not os.path.isabs(git) or os.path.samefile(os.path.dirname(git), os.curdir):
            return None
        done = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
