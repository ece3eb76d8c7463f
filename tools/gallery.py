"""Draw the gallery: episodes of trained policies as animations and player pages, with an index page.

    python tools/gallery.py                       # everything, into gallery/
    python tools/gallery.py --only battle flock   # these; the others are kept
    python tools/gallery.py --train               # train the policies again, first
    python tools/gallery.py --docs                # and the pictures of README.md and docs/

The policies are in ``tools/gallery/policies/``: checkpoints without the state of the trainer, for ``wd.load_policy``.
Policies whose observations do not depend on the number of agents act for more of them than they were trained with.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import warpdrive as wd
from warpdrive.environment import Environment
from warpdrive.figures import Frame
from warpdrive.scene.artist import WIDTH, Artist
from warpdrive.scene.colours import blend, rgb
from warpdrive.training.checkpoint.checkpoint import find_checkpoint
from warpdrive.training.config.load import load_config
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.replay.animation import THEMES, Animation, check_output
from warpdrive.training.replay.film import Film
from warpdrive.training.replay.frames import Frames
from warpdrive.training.rollout.loop import act, in_replicas_of
from warpdrive.training.trainer import Trainer, make_env

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = Path(__file__).with_suffix("")
POLICIES = SOURCES / "policies"
IMAGES = PROJECT / "docs" / "images"


THEME = "dark"
LEVELS = 4
"""Shades of each colour in the GIFs of the documentation."""


@dataclass(frozen=True)
class Shot:
    """GIF of the documentation: the steps that it shows, its width in pixels, and frames per second."""

    steps: range
    width: int = 400
    fps: float = 15.0


@dataclass(frozen=True)
class Entry:
    """Animation of the gallery.

    Attributes:
        name: The name of its environment, of its files, and of the folder of its policies.
        caption: The text below it.
        shot: The picture or animation in docs/.
        config: The run configuration of the training, in ``tools/gallery/`` or shipped; "": that of the name.
        parameters: Parameters of the environment that differ from training.
        live: Parameters in the page of the documentation that runs it; None: the same.
        live_caption: The text of that page; "": the same.
        replicas: The indices of the replicas shown side by side.
        max_steps: The number of steps; None: whole episodes.
        deterministic: If True, agents take the most probable action.
        width: The width in pixels.
        fps: Frames per second.
    """

    name: str
    caption: str
    shot: Shot
    config: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    live: Mapping[str, Any] | None = None
    live_caption: str = ""
    replicas: Sequence[int] = (0,)
    max_steps: int | None = None
    deterministic: bool = False
    width: int = 640
    fps: float = 20.0

    def run_config(self) -> RunConfig:
        """Load the run configuration of the training."""
        name = self.config or self.name
        own = SOURCES / f"{name}.yaml"
        return load_config(own if own.exists() else name)

    def make(self, parameters: Mapping[str, Any] | None = None) -> Environment:
        """Create the environment, with other parameters than those of the animation if they are given."""
        settings = self.run_config().env
        assert settings is not None
        own = self.parameters if parameters is None else parameters
        return wd.make(settings.name, **{**settings.parameters, **own})

    def policies(self) -> dict[str, wd.TrainedPolicy]:
        """Load the policies, by policy tag; past versions of a policy are that policy."""
        sections = self.run_config().policy
        return {tag: wd.load_policy(POLICIES / self.name, getattr(sections[tag], "of", tag)) for tag in sections}

    @torch.no_grad()
    def film(self) -> Film:
        """Play and record the episodes."""
        env = wd.EnvWrapper(
            self.make(),
            num_envs=max(self.replicas) + 1,
            env_backend="cpu",
            reset_pool_size=self.run_config().trainer.reset_pool_size,
        )
        env.greedy = self.deterministic
        actors = in_replicas_of(env, {tag: policy.model for tag, policy in self.policies().items()})
        recording = env.record(self.replicas, lambda replicas: act(replicas, actors), max_steps=self.max_steps)
        return Film(env.env, recording)


PARTICLES = {
    "simple": "An agent goes to a landmark, from three start states.",
    "simple_adversary": (
        "Two good agents cover both landmarks, so that the adversary does not learn which one is the goal."
    ),
    "simple_crypto": "Alice sends Bob a bit, encrypted with a key that Eve lacks.",
    "simple_push": "An adversary keeps a good agent away from its goal.",
    "simple_reference": "Two agents tell each other where to go: numbers are words.",
    "simple_speaker_listener": "A speaker tells a listener where to go: numbers are words.",
    "simple_world_comm": "Adversaries and their leader chase good agents, which hide in forests and eat.",
}
"""Captions of particle environments, each shown from three start states."""

ENTRIES = [
    Entry(
        "battle",
        "Two thousand agents fight on a grid. Both teams learned with 64 agents each.",
        Shot(range(0, 166, 3), width=480, fps=10.0),
        parameters={"agents_per_team": 1000, "map_size": 90, "gap": 8, "episode_length": 300},
        live={},
        live_caption="Two teams of 64 fight on a grid.",
        max_steps=170,
        fps=15.0,
    ),
    Entry(
        "flock",
        "A thousand boids, coloured by their headings. They learned to flock with 64.",
        Shot(range(0, 150, 3), width=400),
        parameters={"num_boids": 1000, "world_size": 60.0, "episode_length": 240},
        fps=30.0,
    ),
    Entry(
        "tag_continuous",
        "Ten taggers chase a hundred runners. Both sides learned in games of four and twelve.",
        Shot(range(100), width=480),
        config="tag_continuous_small",
        parameters={"num_taggers": 10, "num_runners": 100},
        fps=12.0,
    ),
    Entry(
        "tag_gridworld",
        "Four taggers corner a runner, from three start states.",
        Shot(range(46), width=800, fps=8.0),
        replicas=(5, 7, 18),
        width=960,
        fps=8.0,
    ),
    Entry(
        "simple_tag",
        "Three adversaries hunt a faster agent among obstacles.",
        Shot(range(61), width=800, fps=12.0),
        parameters={"episode_length": 100},
        replicas=(17, 34, 37),
        width=960,
        fps=12.0,
    ),
    Entry(
        "simple_spread",
        "Three agents share three landmarks: green ones are covered.",
        Shot(range(31), width=800, fps=10.0),
        parameters={"episode_length": 40},
        replicas=(8, 18, 36),
        width=960,
        fps=10.0,
    ),
    *[
        Entry(name, caption, Shot(range(26), width=800, fps=8.0), replicas=(0, 1, 2), width=960, fps=8.0)
        for name, caption in PARTICLES.items()
    ],
    Entry(
        "lbf",
        "Two players load foods together, from three start states: numbers are levels.",
        Shot(range(31), width=800, fps=4.0),
        replicas=(0, 1, 2),
        deterministic=True,
        width=960,
        fps=4.0,
    ),
    Entry(
        "rware",
        "Two robots carry requested shelves (orange) to the goals (green); carried ones are outlined.",
        Shot(range(61), width=800, fps=6.0),
        replicas=(0, 1, 2),
        max_steps=60,
        width=960,
        fps=6.0,
    ),
    Entry(
        "matrix_game",
        "Two agents play the climbing game early in training: discs mark the payoff of the step.",
        Shot(range(26), width=800, fps=3.0),
        replicas=(0, 1, 2),
        width=960,
        fps=3.0,
    ),
    Entry(
        "overcooked",
        "Two chefs cook onion soups and deliver them: numbers are steps until a soup is ready.",
        Shot(range(61), width=480, fps=6.0),
        max_steps=120,
        width=720,
        fps=6.0,
    ),
    Entry(
        "smax",
        "Two stalkers and three zealots, blue, defeat the same army of JaxMARL's heuristic, in three battles.",
        Shot(range(61), width=800, fps=8.0),
        parameters={"map_width": 16.0, "map_height": 16.0},
        replicas=(0, 1, 2),
        width=960,
        fps=8.0,
    ),
    Entry(
        "connect_four",
        "Two copies of a policy that was trained by self-play play connect four, in turns.",
        Shot(range(31), width=480, fps=3.0),
        max_steps=60,
        width=720,
        fps=3.0,
    ),
    Entry(
        "atari",
        "A policy that observes the memory of the console plays Pong, at the right.",
        Shot(range(0, 360, 3), width=320, fps=15.0),
        config="atari/pong_ram",
        max_steps=400,
        width=480,
        fps=20.0,
    ),
    Entry("cartpole", "A cart balances a pole.", Shot(range(150)), max_steps=250, fps=30.0),
    Entry("acrobot", "Two links swing up by the torque between them.", Shot(range(100)), width=480, fps=15.0),
    Entry("mountain_car", "A car gains momentum to leave a valley.", Shot(range(120)), deterministic=True, fps=25.0),
    Entry(
        "continuous_mountain_car", "The same with a force of any size, which has a cost.", Shot(range(120)), fps=25.0
    ),
    Entry(
        "pendulum", "A rod swings up and is balanced.", Shot(range(100)), replicas=(11,), deterministic=True, width=480
    ),
]
IN_BANNER = ("battle", "flock")
BANNER = Shot(range(0, 124, 2), width=800)
"""The picture of README.md."""


def train(entry: Entry) -> None:
    """Train the policies of an entry, store them, and print their returns."""
    config = entry.run_config()
    trainer = Trainer(make_env(config), config)
    began = time.process_time()
    checkpoint = find_checkpoint(trainer.train().run_folder)
    seconds = time.process_time() - began
    folder = POLICIES / entry.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (checkpoint / "manifest.json", *checkpoint.glob("*.safetensors")):
        shutil.copy(path, folder)
    returns = ", ".join(f"{tag} {value:.1f}" for tag, value in trainer.evaluate(100).mean_return.items())
    print(f"{entry.name}: trained in {seconds:.0f} s of CPU time; mean returns of 100 episodes: {returns}", flush=True)


def draw(entry: Entry, folder: Path, suffixes: Sequence[str], docs: bool) -> Film:
    """Write the files of an entry, print their sizes, and return its film.

    Args:
        entry: The entry.
        folder: The folder of the gallery.
        suffixes: The suffixes of the files.
        docs: If True, write its picture in docs/images, too.
    """
    began = time.process_time()
    film = entry.film()
    animation = Animation([film], entry.fps, title=entry.name, width=entry.width, theme=THEME)
    written = [animation.save(folder / f"{entry.name}{suffix}") for suffix in suffixes]
    if docs:
        last, frames = film.recording.num_steps, Frames(film, entry.shot.width, THEMES[THEME])
        path = IMAGES / f"{entry.name}.gif"
        write_gif(path, [frames.frame(step) for step in entry.shot.steps if step <= last], entry.shot.fps)
        written.append(path)
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.2f} MB" for path in written)
    seconds = time.process_time() - began
    print(f"{entry.name}: {film.recording.num_steps} steps, {sizes}, {seconds:.0f} s of CPU time", flush=True)
    return film


def draw_banner(films: Sequence[Film]) -> None:
    """Write the picture of README.md: films side by side, without captions."""
    artists = [Artist(film.env, BANNER.width / len(films) / WIDTH, THEMES[THEME]) for film in films]

    def frame(step: int) -> Frame:
        pictures = [film.picture(0, step, artist) for film, artist in zip(films, artists, strict=True)]
        return np.concatenate([picture[: min(map(len, pictures))] for picture in pictures], axis=1)

    write_gif(IMAGES / "banner.gif", [frame(step) for step in BANNER.steps], BANNER.fps)


def write_gif(path: Path, frames: Sequence[Frame], fps: float) -> None:
    """Write a GIF that holds its last frame for a second and a half, in the colours of the theme: it is small."""
    colours = THEMES[THEME]
    shades = [
        blend(colour, colours.ground, level / LEVELS) for colour in colours[:-1] for level in range(1, LEVELS + 1)
    ]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for shade in (rgb(colours.ground), *shades) for part in shade])
    first, *others = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [*[1000.0 / fps] * len(others), 1500.0]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0)


def page(entries: Sequence[Entry]) -> str:
    """Return the index page, which runs no scripts and loads only files beside it."""
    figures = "\n".join(
        f"""<figure>
<a href="{entry.name}.html"><img src="{entry.name}.gif" alt="{escape(entry.caption)}" loading="lazy"></a>
<figcaption><b>{entry.name}</b> {escape(entry.caption)} <a href="{entry.name}.html">Play it</a></figcaption>
</figure>"""
        for entry in entries
    )
    return (SOURCES / "page.html").read_text(encoding="utf-8").replace("{{figures}}", figures)


def main() -> None:
    """Draw the entries, and write the index page of all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [entry.name for entry in ENTRIES]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help="entries (default: all)"
    )
    parser.add_argument("--output", type=Path, default=PROJECT / "gallery", metavar="FOLDER", help="default: gallery")
    parser.add_argument("--train", action="store_true", help="train the policies first (minutes)")
    parser.add_argument("--docs", action="store_true", help="write the pictures in docs/images, too")
    options = parser.parse_args()
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        films: dict[str, Film] = {}
        suffixes = [".gif", ".html", *mp4_if_possible(options.output)]
        for entry in [entry for entry in ENTRIES if entry.name in options.only]:
            if options.train:
                train(entry)
            films[entry.name] = draw(entry, options.output, suffixes, options.docs)
        if options.docs and films.keys() >= set(IN_BANNER):
            draw_banner([films[name] for name in IN_BANNER])
        index = options.output / "index.html"
        shown = [entry for entry in ENTRIES if (options.output / f"{entry.name}.gif").exists()]
        index.write_text(page(shown), encoding="utf-8")
    except (wd.WarpDriveError, OSError) as error:
        raise SystemExit(f"gallery.py: {error}") from None
    print(f"open {index}")


def mp4_if_possible(folder: Path) -> list[str]:
    """Return the suffix of MP4 files if they can be written."""
    try:
        check_output(folder / "film.mp4")
    except wd.WarpDriveError as error:
        print(f"no MP4 files: {error}")
        return []
    return [".mp4"]


if __name__ == "__main__":
    main()
