"""Process that records episodes of the newest policy of a run during training, at a low priority.

``python -m warpdrive.training.watch.recorder <run folder> <niceness> [--trust]`` reads a line for each request from
stdin and answers with a line of JSON on stdout, see :class:`Recorder`. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from warpdrive.errors import CheckpointError, WarpDriveError, one_line

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper
    from warpdrive.recording.recording import Recording
    from warpdrive.training.config.schema import RunConfig

MAX_STEPS = 2000
"""Longer episodes are shown up to this step."""
FIRST_NICENESS = 5
"""Niceness until the first episode: at the lowest priority nothing would be seen for minutes if all cores are busy."""
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "CUDA_VISIBLE_DEVICES": "",  # a context takes hundreds of MB of the GPU that trains
}
"""Environment variables of the process, read when libraries are loaded: it leaves cores and GPUs alone."""


class Recorder:
    """Records episodes of the newest policy of a run on the CPU backend.

    Args:
        run: Folder of the run.
        trust: See :func:`warpdrive.training.replay.replay.replay`.
    """

    def __init__(self, run: Path, trust: bool) -> None:
        from warpdrive.training.checkpoint.run_folder import RunFolder

        self.run, self.trust = RunFolder(run), trust
        self._last = ""
        self._env: EnvWrapper | None = None
        self._episodes = 0

    def next(self) -> dict[str, Any]:
        """Return an episode of the newest policy, if there was none yet.

        Returns:
            ``page``, the HTML that plays it, and ``episode``: ``env_steps`` of the policy, ``length``, ``returns`` by
            policy tag, and ``seconds`` that the page takes to play it. Or ``note``, a message while there is none; or
            ``error``, the reason why there will be none.
        """
        from warpdrive.training.checkpoint.present import newest_policy, request_present_policy

        newest = newest_policy(self.run)
        if newest is None or newest.name == self._last:
            in_progress = self.run.is_in_progress
            if in_progress:
                request_present_policy(self.run)
            if newest is not None:
                return {}
            return {"note": "waiting for the first weights" if in_progress else "the run has no weights"}
        try:
            return self._episode_of(newest)
        except CheckpointError as error:  # replaced while it was read, perhaps
            return {"note": str(error)}

    def _episode_of(self, checkpoint: Path) -> dict[str, Any]:
        from warpdrive.training.replay.replay import check_render, draw_recordings

        env = self._environment(self._config(checkpoint)).env
        check_render(env)
        recording = self.record(checkpoint)
        animation = draw_recordings(env, [recording], max_frames=MAX_STEPS + 1)
        self._last, last = checkpoint.name, recording.num_steps
        episode = {
            "env_steps": int(checkpoint.name.removeprefix("step_")),
            "length": last,
            "returns": {tag: float(values[last, 0]) for tag, values in recording.returns.items()},
            "seconds": len(animation.shown) / animation.frames_per_second + animation.seconds_at_an_end,
        }
        return {"episode": episode, "page": animation.html()}

    def record(self, checkpoint: Path) -> Recording:
        """Record an episode of the policies of a checkpoint; each call has another seed.

        Raises:
            WarpDriveError: If the checkpoint is damaged, its code is not trusted, or the environment cannot be created.
        """
        import torch

        from warpdrive.training.config.schema import FunctionConfig
        from warpdrive.training.league import load_player
        from warpdrive.training.opponents.function import FunctionActor
        from warpdrive.training.replay.replay import are_small
        from warpdrive.training.rollout.loop import act, in_replicas_of

        config = self._config(checkpoint)
        models = load_player(checkpoint, trust=self.trust).models
        functions = {tag: section for tag, section in config.policy.items() if isinstance(section, FunctionConfig)}
        models |= {tag: FunctionActor(section.loaded()) for tag, section in functions.items()}
        env = self._environment(config).like(1, seed=config.trainer.seed + self._episodes, rendered=True)
        self._episodes += 1
        actors = in_replicas_of(env, models)
        limit = min(env.env.episode_length, MAX_STEPS)
        try:
            with torch.no_grad():
                return env.record(0, lambda env: act(env, actors), observations=are_small(env), max_steps=limit)
        finally:
            env.close()

    def _config(self, checkpoint: Path) -> RunConfig:
        """Return the configuration of a checkpoint, whose code is known here or trusted."""
        from warpdrive.training.checkpoint.checkpoint import read_models
        from warpdrive.training.config.load import config_of_checkpoint
        from warpdrive.training.config.named_code import check_named_code

        raw = read_models(checkpoint).config
        if not self.trust:
            check_named_code(raw, checkpoint)
        return config_of_checkpoint(raw, checkpoint)

    def _environment(self, config: RunConfig) -> EnvWrapper:
        from warpdrive.interop.replicas import make_replicas

        if self._env is None:
            if config.env is None:
                raise WarpDriveError("the environment of the run was passed as an object and cannot be created here")
            options = {"num_envs": 1, "env_backend": "cpu", "reset_pool_size": 1}
            self._env = make_replicas(config.env.name, config.env.parameters, **options)
        return self._env


def _requests() -> SimpleQueue[str]:
    """Return the lines of stdin; the process ends with it, whatever it is doing."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines


def _lower_priority(niceness: int) -> None:
    if hasattr(os, "nice"):
        os.nice(niceness - os.nice(0))


def main() -> None:
    """Answer requests until stdin ends, or there can be no episodes."""
    niceness = int(sys.argv[2])
    _lower_priority(min(FIRST_NICENESS, niceness))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of environments must not mix with responses
    requests = _requests()
    recorder: Recorder | None = None
    while True:
        requests.get()
        began = time.process_time()
        try:
            if recorder is None:
                recorder = Recorder(Path(sys.argv[1]), "--trust" in sys.argv[3:])
            answer = recorder.next()
        except WarpDriveError as error:
            answer = {"error": str(error)}
        except Exception as error:  # of an environment
            answer = {"error": one_line(f"{type(error).__name__}: {error}")}
        answers.write(json.dumps({**answer, "cpu_seconds": time.process_time() - began}) + "\n")
        answers.flush()
        if "error" in answer:
            return
        if "page" in answer:
            _lower_priority(niceness)


if __name__ == "__main__":
    main()
