"""Measure how long animations and player pages take to write, their sizes, and the frame rate of the player.

python benchmarks/pictures.py
python benchmarks/pictures.py --frame-rate    # needs Chromium and Playwright
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numba import cuda

import warpdrive as wd
from harness.measure import machine
from warpdrive.recording.recording import Recording
from warpdrive.training.replay.animation import Animation
from warpdrive.training.replay.film import Film

TRAIL = 20


@wd.kernel
def draw(shapes, x, y, heading):  # type: ignore[no-untyped-def]
    """Draw an arrowhead with a trail."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.triangle(shapes, 0, x[env, agent], y[env, agent], 0.06, heading[env, agent], agent % 7)
    wd.draw.trail(shapes, 0, TRAIL)


class Wanderers(wd.Environment):
    """Agents that turn at random within a square."""

    name = "wanderers"
    step = draw  # never runs
    draw = draw
    view = (-1.0, 1.0, -1.0, 1.0)

    def __init__(self, num_agents: int) -> None:
        self.num_agents = num_agents


def film_of(num_agents: int, num_steps: int) -> Film:
    """Return a film of agents that bounce from the walls, with a reward and an action of three values each."""
    rng = np.random.default_rng(0)
    heading = rng.uniform(-np.pi, np.pi, num_agents) + rng.normal(0, 0.2, (num_steps + 1, num_agents)).cumsum(0)
    x, y = (
        2 * np.abs((start + 0.02 * turn.cumsum(0)) % 2 - 1) - 1
        for start, turn in zip(rng.uniform(0, 2, (2, num_agents)), (np.cos(heading), np.sin(heading)), strict=True)
    )
    states = {name: array[:, None].astype(np.float32) for name, array in (("x", x), ("y", y), ("heading", heading))}
    rewards = (-np.hypot(x, y))[1:, None].astype(np.float32)
    recording = Recording(
        env_name="wanderers",
        env_config=None,
        policy_tags={"agent": list(range(num_agents))},
        by_tag=[],
        replicas=np.array([0]),
        seed=0,
        states=states,
        actions=rng.integers(0, 3, (num_steps, 1, num_agents), dtype=np.int32),
        rewards=rewards,
        log_probabilities=np.zeros_like(rewards),
        lengths=np.array([num_steps], np.int32),
        terminated=np.array([False]),
        truncated=np.array([True]),
    )
    return Film(Wanderers(num_agents), recording)


def write(num_agents: int, num_steps: int, path: Path) -> tuple[float, float]:
    """Return the processor time of drawing and writing a file, without compiling the kernel, and its size in MB."""
    animation = Animation([film_of(num_agents, num_steps)], max_frames=num_steps + 1)  # draws a first frame
    start = time.process_time()
    animation.save(path)
    return time.process_time() - start, path.stat().st_size / 1e6


def frame_rate(path: Path) -> float:
    """Return the median time between two frames of the player in headless Chromium without a GPU, in milliseconds."""
    from playwright.sync_api import sync_playwright

    script = """async () => {
        const times = [];
        let last = performance.now();
        for (let frame = 0; frame < 300; frame++) {
            await new Promise(requestAnimationFrame);
            times.push(performance.now() - last);
            last = performance.now();
        }
        return times;
    }"""
    options: Any = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox", "--disable-gpu"]}
    with sync_playwright() as running:
        browser = running.chromium.launch(**options)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(path.as_uri())
        page.wait_for_function("window.player?.state() > 20")
        times = page.evaluate(script)
        browser.close()
    return statistics.median(times)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each file (default: 3)")
    parser.add_argument("--frame-rate", action="store_true", help="measure the frame rate of the player")
    options = parser.parse_args()
    print(machine())
    print(f"processor time, medians of {options.rounds}; MP4 without that of ffmpeg, a process of its own\n")
    with tempfile.TemporaryDirectory() as folder:
        for num_agents, num_steps, suffix in ((100, 999, "gif"), (100, 999, "mp4"), (1000, 500, "html")):
            path = Path(folder) / f"{num_agents}.{suffix}"
            found = [write(num_agents, num_steps, path) for _ in range(options.rounds)]
            seconds, size = (statistics.median(values) for values in zip(*found, strict=True))
            title = f"{suffix.upper()}, {num_agents} agents, {num_steps + 1} states"
            print(f"{title:35} {seconds:6.1f} s {size:6.2f} MB", flush=True)
        if options.frame_rate:
            for num_agents in (100, 2000):
                path = Path(folder) / "page.html"
                write(num_agents, 300, path)
                print(f"{f'frame of the player, {num_agents} agents':35} {frame_rate(path):6.1f} ms", flush=True)


if __name__ == "__main__":
    main()
