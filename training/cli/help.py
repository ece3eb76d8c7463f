"""Epilogs of `--help`: examples, and notes that concern several options."""

DESCRIPTION = """\
Simulate thousands of replicas of a multi-agent environment and train its agents, all on one device."""

EPILOG = """\
getting started:
  warpdrive envs                              list the available environments
  warpdrive train tag_gridworld               train, evaluate and animate agents in one of them
  warpdrive train my_run.yaml                 train from your own run configuration
  warpdrive init my_game                      create your own environment from a template

Each run creates a folder runs/<name>/<date-time>/ with config.yaml, metrics.csv, checkpoints/, summary.json,
replay.gif and report.html. Wherever a command expects a <run>, pass that folder, runs/<name> for the latest run of
that name, or a checkpoint of the run.

Completion of commands, keys and runs: eval "$(warpdrive completion bash)", or zsh; see 'warpdrive completion --help'.
NO_COLOR=1 turns colours off, FORCE_COLOR=1 turns them on in files and pipes.

Run 'warpdrive <command> --help' for the options and examples of a command."""

EPILOGS = {
    "train": """\
examples:
  warpdrive train tag_gridworld                                              the shipped run configuration
  warpdrive train tag_gridworld trainer.num_envs=500 policy.tagger.lr=1e-3   with other values of two keys
  warpdrive train my_run.yaml env.num_taggers=8 saving.folder=/data/runs     your own file
  warpdrive train my_game.py:MyGame trainer.total_steps=1e5                  your environment, default settings
  warpdrive train --resume runs/tag_gridworld                                resume an interrupted run
  warpdrive train --resume runs/tag_gridworld trainer.total_steps=2e7        train a finished run further
  warpdrive train tag_gridworld -n 4                                         four GPUs, one process per GPU
  warpdrive train tag_gridworld --num_processes 2                            two processes on the CPU
  warpdrive train tag_gridworld --watch                                      with a page of curves and episodes

An environment without a run configuration is trained with PPO and its default settings, for all policies. Every key of
the run configuration can be overridden. The config.yaml of a run folder lists all keys with their values
and can be passed to 'warpdrive train' again. Ctrl-C stops training gracefully and saves a checkpoint.""",
    "autoscale": """\
examples:
  warpdrive autoscale tag_gridworld                             writes tag_gridworld_autoscaled.yaml, .png and .json
  warpdrive train tag_gridworld_autoscaled.yaml                 train with the result
  warpdrive autoscale my_run.yaml --memory 2GiB -o small.yaml   with at most 2 GiB of memory
  warpdrive train tag_gridworld --auto_scale                    tune, then train

Searches for the trainer.num_envs and the rollout length (train_batch_size / num_envs) with the highest training
throughput, which are usually not the largest that fit in memory. Each candidate runs in its own process; candidates
that run out of memory, time out or crash are rejected. Among candidates of about equal throughput, the one with the
smallest batch is selected. All other settings are kept. A larger batch means fewer updates: compare returns as well as
throughput. A search takes a few minutes; other programs on the machine distort its measurements.""",
    "sweep": """\
examples:
  warpdrive sweep cartpole policy.agent.lr=[1e-3,3e-4] policy.agent.gamma=[0.98,0.99]        all 4 combinations
  warpdrive sweep cartpole "policy.agent.lr=loguniform(1e-4,1e-2)" --trials 20               random search
  warpdrive sweep cartpole "policy.agent.epochs=integer(2,10)" --engine optuna --trials 30   Optuna
  warpdrive sweep cartpole trainer.seed=[0,1,2] trainer.total_steps=50000                    three seeds
  warpdrive sweep --resume runs/cartpole_sweep/2026-11-21_15-00-00                           continue a sweep

search space:
  key=[a, b, c]              try each value; for values that are lists: key=[[64, 64], [128]]
  key=uniform(low, high)     sample uniformly
  key=loguniform(low, high)  sample uniformly on a logarithmic scale, as for learning rates
  key=integer(low, high)     sample an integer, both bounds included
  key=value                  use the same value in all trials
Quote arguments with parentheses, which are special characters of the shell.

Each trial trains in its own process and is then evaluated over trainer.evaluation.num_episodes episodes. Trials are
ranked by the mean return of one policy (--tag). A failed trial does not stop the sweep. Ctrl-C stops all trials, which
save checkpoints; --resume continues them and runs the remaining ones.""",
    "evaluate": """\
examples:
  warpdrive evaluate runs/tag_gridworld                                  the latest run
  warpdrive evaluate runs/tag_gridworld --random runner                  with random actions for the runner
  warpdrive evaluate runs/tag_gridworld --episodes 200 --deterministic   the most likely actions
  warpdrive evaluate runs/tag_gridworld --best                           the best checkpoint instead of the latest
  warpdrive evaluate runs/a runs/b runs/c                                several runs, one line each
  warpdrive evaluate runs/a --against runs/b runs/c                      head to head, on both sides, with win rates
  warpdrive evaluate runs/a/*/checkpoints/step_* --league                round robin with Elo ratings

A run keeps its best checkpoint if it is evaluated during training: set the interval in updates with
trainer.evaluation.every=20, and the metric to compare with saving.best_metric.""",
    "plot": """\
examples:
  warpdrive plot runs/cartpole                                   returns of the latest run, saved to its folder
  warpdrive plot runs/cartpole/*                                 all runs in one plot
  warpdrive plot runs/cartpole runs/pendulum -o both.svg         another file and format
  warpdrive plot runs/cartpole/* -m losses/entropy --smooth 10   another metric, as a moving average

Runs that differ only in trainer.seed are averaged into one line, with a band from their minimum to their maximum. Other
runs get one line each, labelled with the keys in which their configurations differ. The x axis is environment steps.

Metrics have the names of the columns of metrics.csv (docs/reference/metrics.md). Without its policy tag, a name
selects the metric of all policies; * matches any text. By default, returns are plotted: those of training episodes,
which are biased towards short episodes because those finish first, and those of evaluations during training
(trainer.evaluation.every), which are not.

The extension of the output file selects the format: .png, .svg or .pdf.""",
    "report": """\
examples:
  warpdrive report runs/cartpole                              the latest run, writes report.html to its folder
  warpdrive report runs/cartpole/*                            all runs in one page, writes report.html
  warpdrive report runs/cartpole runs/pendulum -o both.html   another file

One HTML file that loads nothing: learning curves, the evaluation, distributions of returns and lengths, losses,
throughput and memory, the configuration with its differences from the defaults and between the runs, versions and
hardware, and the animation. Runs that differ only in trainer.seed are averaged into one line, with a band from their
minimum to their maximum. 'warpdrive train' writes the report of its run at the end; this command works for runs that
are running, failed or were interrupted as well.""",
    "watch": """\
examples:
  warpdrive watch runs/cartpole               the latest run, in training or ended
  warpdrive train cartpole --watch            the same from the start of a training
  warpdrive watch runs/cartpole --port 8400   on another port
  ssh -L 8300:127.0.0.1:8300 me@gpu-server    on your machine, to reach the page of another one

Prints the address of a page with the state of the run, its learning curves, and the latest episode of its newest
policy. It can be reached from this machine only, and only with the token in the address.

While the page is open in a visible tab, the run writes its current policy every few seconds, and another process
records episodes of it on the CPU, in one thread at a low priority. Otherwise nothing is written or recorded.
'warpdrive train --watch' serves the page until training ends, 'warpdrive watch' until Ctrl-C.""",
    "replay": """\
examples:
  warpdrive replay runs/tag_gridworld                              writes replay.gif to the run folder
  warpdrive replay runs/tag_gridworld -o tag.html --replicas 4     four replicas side by side, in a player
  warpdrive replay runs/tag_gridworld -o tag.svg --step 20         the picture of one step
  warpdrive replay runs/tag_gridworld -o tag.mp4 --random runner   a video; the runner moves at random
  warpdrive replay runs/tag_gridworld -o tag.npz -o tag.gif        the same episode as arrays and as an animation
  warpdrive replay tag.npz -o again.html                           animates a recording

The extension of the output file selects the format:
  .gif                 animated GIF
  .html                player page: zoom, follow an agent, see its arrays and the curves of returns; works offline
  .mp4                 H.264 video; requires ffmpeg: pip install 'warpdrive[video]'
  .png, .svg           picture of one step
  .npz, .safetensors   states, actions, rewards and probabilities as arrays, for wd.Recording.load
Each frame shows the step, how the episode ended, and the return so far of each policy (the mean over its agents).
The same --seed gives the same episodes. For long episodes only every n-th step is drawn.""",
    "web": """\
examples:
  warpdrive web runs/tag_continuous                      writes tag_continuous.html to the run folder
  warpdrive web runs/cartpole -o cartpole.html           another file
  warpdrive web overcooked                               without policies: agents act at random, or people play
  warpdrive web tag_gridworld env.num_taggers=8          another value of a parameter of the environment

The page needs no network and no other file: the environment's kernels and the policies are compiled to WebAssembly, and
run in the browser with bitwise the same results as on the CPU, which the button "Verify" checks. People can control
agents with keys, mouse or touch, and a link reproduces a game. docs/guides/web.md lists the limitations.""",
    "export": """\
examples:
  warpdrive export runs/cartpole                                   writes agent.onnx
  warpdrive export runs/tag_gridworld --tag tagger                 one of several policies: tagger.onnx
  warpdrive export runs/tag_gridworld --tag tagger -o tagger.pt2   for torch.export.load

The extension of the output file selects the format:
  .onnx    ONNX, for onnxruntime and others; requires: pip install 'warpdrive[onnx]'
  .pt2     PyTorch, for torch.export.load
Inputs: observations (observations_<key> for each key of a Dict space, sorted by key), action_mask with --action-mask,
and state for recurrent policies. Outputs: actions (the most likely ones), logits, and next_state for recurrent
policies. The batch size is dynamic. The outputs of the exported file are verified against those of the policy.""",
    "check": """\
examples:
  warpdrive check tag_gridworld num_taggers=3 grid_length=4   a registered environment, small
  warpdrive check my_game.py:MyGame --steps 50                your own, for more steps
  warpdrive check my_run.yaml --nan                           that of a run configuration; report NaN as well
  warpdrive check my_game.py:MyGame --against old_game.py:OldGame   compare it with the original of a port
  warpdrive check cartpole --against                          compare it with the reference that it names

Kernels run in an interpreter that tracks each memory access. It is slow: use few agents. It reports:
  races          unordered accesses of two threads or blocks to one element, at least one of them a write
  bounds         indices out of bounds, and negative indices, which count from the end
  uninitialised  reads of shared or local memory that was never written
  divergence     barriers that not all threads of a block reach
  arithmetic     integer divisions, shifts and conversions without a defined result
  conversions    numbers stored in integers that lose a fraction or are out of range
  broadcasts     numbers written to a whole row because an index is missing
  float64        unintended arithmetic in float64
  order          results that depend on the order in which threads run
  endless        loops that do not end within --max-steps
  nan            writes of NaN or infinity (with --nan)
Then the environment runs for some steps, which reports:
  spaces         observations outside of their space, or not finite
  resets         first observations of an episode that are left over from the previous one
  determinism    results that differ between identical runs, or with the number of replicas
  reference      differences from reference_step and reference_observe, if the environment has them
Finally, the backends available on this machine are compared with each other and with the interpreter:
  backends       differences between backends
With --against, the environment is compared with a reference instead: an environment of Gymnasium, a parallel one of
PettingZoo, or a class with the methods set_state, step and observations. Both start from the same states and take the
same actions. The first difference of each array is printed with its agent, its step and the line that wrote it.
Each problem is reported once, with its number of occurrences, the lines, and a suggested fix. The exit code is 1 if any
problem was found.""",
    "envs": """\
examples:
  warpdrive envs                     list all environments
  warpdrive envs tag_gridworld       show the parameters of one
  warpdrive envs my_game.py:MyGame   show the parameters of your own""",
    "init": """\
examples:
  warpdrive init my_game   writes my_game/my_game.py, test_my_game.py and my_game.yaml

The template is a working environment, in which hunters on a ring learn to catch a runner. Edit it into your own.""",
    "schema": """\
examples:
  warpdrive schema -o run_config.schema.json                     the registered environments
  warpdrive schema my_game.py:MyGame -o run_config.schema.json   with the parameters of your own environment

Editors with a YAML language server complete and check run configurations that name the file in their first line:
  # yaml-language-server: $schema=run_config.schema.json""",
    "completion": """\
examples:
  warpdrive completion bash   prints the script of bash

install it with one line:
  bash    echo 'eval "$(warpdrive completion bash)"' >> ~/.bashrc
  zsh     echo 'eval "$(warpdrive completion zsh)"' >> ~/.zshrc          after compinit
  fish    warpdrive completion fish > ~/.config/fish/completions/warpdrive.fish

Completes commands, options, environments, run configurations, runs, files, policy tags, and the keys and values of run
configurations: policy.agent.algorithm=<TAB>.""",
    "convert": """\
examples:
  warpdrive convert old.yaml               prints the configuration
  warpdrive convert old.yaml -o new.yaml   writes it to a file
  warpdrive train old.yaml                 converts it, too, and trains

Comments at the top say what changed in meaning, what was dropped, and what to correct (docs/guides/warpdrive2.md).""",
    "doctor": """\
examples:
  warpdrive doctor          a table for reading
  warpdrive doctor --json   the same for programs

Explains how to fix backends (env_backend=numba, pycuda) that are unavailable on this machine, and which backend
env_backend=auto selects. Nothing is modified, no GPU is required, and the exit code is always 0.""",
}
"""By command, in the order of the help."""
