"""Pages in which environments run with the policies of the gallery, for the documentation site.

They are kept in ``build/live/`` until something that they may be made of changes.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import warpdrive as wd
from gallery import ENTRIES, PROJECT
from warpdrive.errors import ExportError
from warpdrive.training.runtime.atomic_write import write_atomically
from warpdrive.training.web.page import PageOptions, web_page
from warpdrive.training.web.source import with_fitting_pool

KEPT = PROJECT / "build" / "live"
MADE_OF = ("warpdrive/**/*.*", "envs/**/*.*", "training/**/*.*", "tools/gallery/**/*.*", "tools/*.py", "setup.py")
NAMES = tuple(entry.name for entry in ENTRIES if entry.name != "atari")
"""Environments that have a page; games of Atari are too large."""


def live_pages(names: Sequence[str] = NAMES) -> dict[str, str]:
    """Return the pages of environments by name; those that are not cached take seconds each."""
    if missing := [name for name in names if not _kept(name).is_file()]:
        print(f"Compiling the pages of {len(missing)} environments to WebAssembly")
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            for name, page in zip(missing, pool.map(live_page, missing), strict=True):
                for outdated in KEPT.glob(f"{name}-*.html"):
                    outdated.unlink()
                KEPT.mkdir(parents=True, exist_ok=True)
                write_atomically(_kept(name), page)
    return {name: _kept(name).read_text(encoding="utf-8") for name in names}


def live_page(name: str) -> str:
    """Return the page of an environment with the policies of the gallery, compiled anew."""
    (entry,) = (entry for entry in ENTRIES if entry.name == name)
    pool_size = entry.run_config().trainer.reset_pool_size
    env = with_fitting_pool(wd.EnvWrapper(entry.make(entry.live), env_backend="cpu", reset_pool_size=pool_size))
    caption = entry.live_caption or entry.caption.replace(", from three start states", "")  # of the animation
    options = PageOptions(
        name,
        caption,
        steps_per_second=entry.fps,
        greedy=entry.deterministic,
        verified_steps=max(100, 10_000 // env.num_agents),
    )
    try:
        return web_page(env, entry.policies(), options).html
    except ExportError:  # pages cannot compute the model
        return web_page(env, {}, replace(options, about=f"{caption} Here all agents act at random.")).html


def _kept(name: str) -> Path:
    return KEPT / f"{name}-{_state()}.html"


@functools.cache
def _state() -> str:
    """Return a hash of the files of which pages may be made."""
    found = hashlib.sha256()
    for path in sorted(path for pattern in MADE_OF for path in PROJECT.glob(pattern) if path.suffix != ".pyc"):
        if path.is_file():
            found.update(path.relative_to(PROJECT).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:16]
