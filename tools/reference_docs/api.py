"""Pages of the Python API: subjects with their names, whose docstrings mkdocstrings renders."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warpdrive as wd
from reference_docs.markdown import page_of, slug, table

Options = Mapping[str, Any]
CONFIGURATION = "../configuration.md"


@dataclass(frozen=True)
class Subject:
    """Page of the API reference.

    Attributes:
        file: name of the page without its extension.
        title: heading.
        introduction: paragraph below the heading.
        names: dotted names of the objects, with the options of mkdocstrings that differ from those of the site.
        more: further text before the reference, in Markdown.
    """

    file: str
    title: str
    introduction: str
    names: Mapping[str, Options]
    more: Sequence[str] = field(default_factory=tuple)


def _only(*members: str, **options: Any) -> Options:
    """Return the options that show these members, inherited ones included."""
    return {"members": list(members), "inherited_members": True, **options}


NO_MEMBERS: Options = {"members": False}
KERNEL_FUNCTIONS: Options = {"docstring_section_style": "list"}
ALGORITHM = ("loss", "update", "evaluate_actions")

SUBJECTS = (
    Subject(
        "kernels",
        "Kernels and launching",
        "Kernel functions are Python functions in the language of `numba.cuda`, or functions of a CUDA C file. On "
        "their own they are launched as `k[blocks, threads](*arrays)`, on the CPU or a GPU; in an environment they "
        "are fused into one launch per step. [Kernels](../kernels.md) describes the language.",
        {
            "warpdrive.kernel": {},
            "warpdrive.device_function": {},
            "warpdrive.Kernel": _only("__getitem__", "configure", "forall", "parameters", "where", filters=[]),
            "warpdrive.cuda_kernel": {},
            "warpdrive.CudaKernel": _only("parameters", "where", "signature", "may_change"),
        },
    ),
    Subject(
        "environments",
        "Environments",
        "An environment defines start states, spaces and kernels of one replica. `wd.EnvWrapper` runs thousands of "
        "replicas of it on one device. [Writing environments](../../guides/authoring.md) explains how to define one, "
        "[Environments](../../environments/index.md) lists those that are included.",
        {
            "warpdrive.Environment": {},
            "warpdrive.EnvWrapper": {},
            "warpdrive.HostEnv": NO_MEMBERS,
            "warpdrive.PerReplica": {},
            "warpdrive.make": {},
            "warpdrive.register": {},
            "warpdrive.registered_names": {},
            "warpdrive.atari": {"members": ["games", "from_ale", "to_ale"], "inherited_members": True},
        },
    ),
    Subject(
        "rollouts",
        "Device arrays and rollouts",
        "All arrays of a run are tensors of PyTorch that share memory with the kernels' arrays, by name in the "
        "device context `env.ctx`. A rollout holds the experience of several steps. `wd.no_host_transfers` finds "
        "code that copies between host and device, or makes them wait for each other.",
        {
            "warpdrive.DeviceContext": {},
            "warpdrive.Rollout": {},
            "warpdrive.no_host_transfers": {},
            "warpdrive.HostTransferError": {},
        },
    ),
    Subject(
        "training",
        "Training",
        "`wd.Trainer` trains the policies of a run configuration, evaluates them and writes the run folder. "
        "[Training runs](../../guides/training.md) describes what surrounds it. `warpdrive.training.lightning` "
        "trains with PyTorch Lightning instead.",
        {
            "warpdrive.Trainer": {"filters": ["!^_", "!^team$", "!^graphs$"]},
            "warpdrive.Callback": {},
            "warpdrive.training.reports.UpdateReport": NO_MEMBERS,
            "warpdrive.training.reports.EvaluationReport": NO_MEMBERS,
            "warpdrive.training.evaluation.EvaluationResult": {},
            "warpdrive.training.reports.TrainingSummary": NO_MEMBERS,
            "warpdrive.sum_over_processes": {},
            "warpdrive.mean_over_processes": {},
            "warpdrive.training.lightning.WarpDriveModule": _only("engine"),
            "warpdrive.training.lightning.RolloutData": NO_MEMBERS,
        },
    ),
    Subject(
        "configuration",
        "Configuration classes",
        "A run configuration in Python: `wd.RunConfig` with a section object for each part. The fields of a section "
        "are its keys, as keyword arguments; [Configuration keys](../configuration.md) explains them, with types and "
        "defaults. A dictionary works in place of any section. Sections are immutable, and invalid values raise "
        "`ConfigError` with the nearest valid name.",
        {
            "warpdrive.RunConfig": _only("load", "save", "to_yaml", "best_metric", "policy_over_the_run"),
            **{
                f"warpdrive.{name}": {**NO_MEMBERS, "show_bases": False}
                for name in (
                    *("EnvironmentConfig", "TrainerConfig", "EvaluationConfig", "SavingConfig", "WandbConfig"),
                    *("TrackioConfig", "MlflowConfig", "PPOConfig", "A2CConfig", "ReinforceConfig", "DQNConfig"),
                    *("PQNConfig", "VDNConfig", "QMIXConfig", "DDPGConfig", "TD3Config", "SACConfig", "CustomConfig"),
                    "RandomConfig",
                    *("SelfPlayConfig", "FunctionConfig", "FullyConnectedConfig", "ConvolutionalConfig", "GRUConfig"),
                    *("LSTMConfig", "MinGRUConfig", "CustomModelConfig", "PerceptronConfig", "ConvolutionsConfig"),
                    "UnitsConfig",
                )
            },
        },
    ),
    Subject(
        "models",
        "Models",
        "Base classes of policies and value functions written by users, and wrappers of models. "
        "[Models](../../guides/models.md) describes the built-in ones and shows complete examples.",
        {
            "warpdrive.ActorCritic": _only(
                "logits", "values", "step", "forward_sequence", "act", "observe", "state_size"
            ),
            "warpdrive.RecurrentActorCritic": _only("encode", "advance", "heads", "advance_sequence", "state_size"),
            "warpdrive.Population": _only("by_member", "split", "call_members"),
            "warpdrive.CheckDevice": NO_MEMBERS,
            "warpdrive.register_model": {},
        },
    ),
    Subject(
        "algorithms",
        "Algorithms and experience",
        "Classes from which a modified algorithm derives, and the experience that they train on. "
        "[Algorithms](../algorithms/index.md) describes all algorithms and shows complete examples.",
        {
            "warpdrive.PPO": _only(*ALGORITHM, "step", "value_loss"),
            "warpdrive.A2C": _only(*ALGORITHM),
            "warpdrive.MAPPO": _only("step", "values", "evaluate_actions", "critic_inputs"),
            "warpdrive.Batch": _only(
                *("rows", "rows_of", "partition", "minibatches", "split", "masked_mean", "mean", "counting", "columns")
            ),
            "warpdrive.gae": {},
        },
    ),
    Subject(
        "policies",
        "Policies and recordings",
        "Trained policies act outside of a training run, are exported to other programs, recorded, animated and shown "
        "live in pages. See "
        "[Exporting policies](../../guides/export.md) and [Rendering and "
        "replays](../../environments/index.md#rendering-and-replays).",
        {
            "warpdrive.load_policy": {},
            "warpdrive.TrainedPolicy": _only("is_recurrent", "reset", "act", "export"),
            "warpdrive.Recording": {},
            "warpdrive.replay": {},
            "warpdrive.training.replay.animation.Animation": {},
            "warpdrive.live": {},
            "warpdrive.training.web.page.WebPage": {},
        },
    ),
    Subject(
        "checks",
        "Checks, debugging and errors",
        "`wd.check_launch` finds data races and other errors of a kernel, `wd.debug` runs it as plain Python. Errors "
        "that a user can correct derive from `wd.WarpDriveError`. See [Checks](../../guides/checks.md).",
        {
            "warpdrive.check_launch": {},
            "warpdrive.debug": {},
            "warpdrive.WarpDriveError": {},
            "warpdrive.KernelError": {},
        },
    ),
    Subject(
        "interop",
        "Other libraries",
        "Environments with the interfaces of other libraries, and programs of WarpDrive 2. See [Other "
        "libraries](../../guides/interop.md) and [Coming from WarpDrive 2](../../guides/warpdrive2.md).",
        {
            "warpdrive.to_gymnasium": {},
            "warpdrive.to_pettingzoo": {},
            "warpdrive.to_torchrl": {},
            "warpdrive.to_stable_baselines3": {},
            "warpdrive.to_skrl": {},
            "warpdrive.to_rsl_rl": {},
            "warpdrive.interop": NO_MEMBERS,
            "warpdrive.interop.warpdrive2.install": {},
            "warpdrive.interop.warpdrive2.uninstall": {},
            "warpdrive.interop.warpdrive2.is_installed": {},
        },
    ),
    Subject(
        "drawing",
        "Drawing",
        "Functions that the `draw` kernel of an environment calls, each in the thread of an agent, to write the "
        "shapes of that agent. [Pictures](../../guides/authoring.md#pictures) shows a complete kernel.",
        {
            "warpdrive.draw": NO_MEMBERS,
            **{f"warpdrive.draw.{name}": KERNEL_FUNCTIONS for name in ("circle", "rectangle", "triangle", "sector")},
            **{f"warpdrive.draw.{name}": KERNEL_FUNCTIONS for name in ("line", "number", "style", "trail")},
        },
        more=(
            "Colours are the constants `wd.draw.BLUE`, `RED`, `YELLOW`, `GREEN`, `PURPLE`, `SKY`, `ORANGE`, `GREY`, "
            "`INK` (text and lines), `PAPER` (background) and `GROUND` (areas). They are integers; their values "
            "differ between the light and the dark theme, and are distinguishable with colour blindness.",
            "A kernel may also write shapes without these functions: `shapes[env, agent, index, field]`, where the "
            "field is one of `wd.draw.KIND`, `X`, `Y`, `WIDTH`, `HEIGHT`, `ANGLE`, `COLOUR`, `OPACITY`, `EDGE`, "
            "`LINE`, `LAYER` and `TRAIL` (`wd.draw.FIELDS` has their names), and the kind one of `wd.draw.NOTHING`, "
            "`CIRCLE`, `RECTANGLE`, `TRIANGLE`, `SECTOR`, `SEGMENT` and `NUMBER`.",
        ),
    ),
    Subject(
        "math",
        "Mathematics",
        "Functions of float32 for kernels with the same bits on every backend, unlike those of Python's `math`. "
        "[Mathematical functions](../kernels.md#mathematical-functions) compares both.",
        {
            "warpdrive.math": NO_MEMBERS,
            **{
                f"warpdrive.math.{name}": KERNEL_FUNCTIONS
                for name in ("sin", "cos", "tan", "atan2", "exp", "log", "pow", "sqrt", "rsqrt", "tanh")
            },
        },
    ),
    Subject(
        "random",
        "Random numbers",
        "Random numbers for kernels, with the same bits on every backend, for any number of replicas and processes.",
        {
            "warpdrive.random": NO_MEMBERS,
            **{
                f"warpdrive.random.{name}": KERNEL_FUNCTIONS
                for name in ("uniform", "four_uniforms", "normal", "integer", "draw", "replica_integer", "philox4x32")
            },
            "warpdrive.random.initial_rng": {},
            "warpdrive.random.xoroshiro128p_states": {},
        },
    ),
    Subject(
        "testing",
        "Testing",
        "Assertions for tests of environments and kernels, for pytest or any other test runner. See "
        "[Checks](../../guides/checks.md).",
        {
            "warpdrive.testing": NO_MEMBERS,
            "warpdrive.testing.check_environment": {},
            "warpdrive.testing.check_kernels": {},
            **{
                f"warpdrive.testing.{name}": {}
                for name in (
                    *("check_parity", "ParityReport", "Difference", "Parity"),
                    *("Reference", "GymnasiumReference", "PettingZooReference", "Draws"),
                )
            },
        },
    ),
)

KEYS = {
    "EnvironmentConfig": "`env`",
    "TrainerConfig": "`trainer`",
    "EvaluationConfig": "`trainer.evaluation`",
    "SavingConfig": "`saving`",
    "WandbConfig": "`saving.wandb`",
    "TrackioConfig": "`saving.trackio`",
    "MlflowConfig": "`saving.mlflow`",
    "SelfPlayConfig": "`algorithm: self_play`",
    "FullyConnectedConfig": "`type: fully_connected`",
    "ConvolutionalConfig": "`type: convolutional`",
    "GRUConfig": "`type: gru`",
    "LSTMConfig": "`type: lstm`",
    "MinGRUConfig": "`type: mingru`",
    "CustomModelConfig": "Custom models",
    "PerceptronConfig": "`model`",
    "ConvolutionsConfig": "`type: convolutional`",
    "UnitsConfig": "`type: gru`",
}
"""Section of configuration.md with the keys of a class that is not named after an algorithm."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    yield "index", page_of(_index())
    for subject in SUBJECTS:
        yield subject.file, page_of(_page(subject))


def documented() -> set[str]:
    """Return the names of all pages, with dots."""
    return {name for subject in SUBJECTS for name in subject.names}


def _index() -> Iterator[str]:
    yield "# Python API"
    yield (
        "`import warpdrive as wd` loads the names below on first use, so that the import is fast "
        "and needs no GPU. `wd.__version__` is the version. Names beginning with an underscore, and "
        "modules that these pages do not list, may change without notice."
    )
    for subject in SUBJECTS:
        yield f"## [{subject.title}]({subject.file}.md)"
        yield table(["name", "purpose"], _rows(subject, f"{subject.file}.md"))


def _page(subject: Subject) -> Iterator[str]:
    yield f"# {subject.title}"
    yield subject.introduction
    yield table(["name", "purpose"], _rows(subject))
    yield from subject.more
    yield "## Reference"
    first = _short(next(iter(subject.names)))
    yield f"In Python, `help({first})` prints the same text."
    for name, options in subject.names.items():
        yield "\n".join([f"::: {name}", *_yaml({"options": options} if options else {}, 1)])
        if subject.file == "configuration" and name != "warpdrive.RunConfig":
            yield f"Keys: {_keys(name.rpartition('.')[2])}."


def _rows(subject: Subject, page: str = "") -> list[tuple[str, str]]:
    return [(f"[`{_short(name)}`]({page}#{name})", _summary(name)) for name in subject.names]


def _short(name: str) -> str:
    return re.sub(r"^warpdrive\.(?!training)", "wd.", name)


def _keys(name: str) -> str:
    """Return a link to the keys of a configuration class."""
    heading = KEYS.get(name) or f"`algorithm: {name.removesuffix('Config').lower()}`"
    return f"[{heading}]({CONFIGURATION}#{slug(heading)})"


def _yaml(options: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield lines of YAML for nested mappings with values of JSON."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield f"{'    ' * depth}{key}:"
            yield from _yaml(value, depth + 1)
        else:
            yield f"{'    ' * depth}{key}: {json.dumps(value)}"


def _summary(name: str) -> str:
    """Return the first paragraph of an object's docstring, as one line of Markdown."""
    paragraph = _docstring(name).partition("\n\n")[0]
    text = re.sub(r":\w+:", "", " ".join(paragraph.split())).replace("``", "`")
    return text.replace("`warpdrive.", "`wd.")


def _docstring(name: str) -> str:
    owner, _, attribute = name.rpartition(".")
    if owner == "warpdrive.training.lightning":  # without importing lightning, which may not be installed
        spec = importlib.util.find_spec(owner)
        assert spec is not None and spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == attribute)
        return ast.get_docstring(found) or ""
    module = wd if owner == "warpdrive" else importlib.import_module(owner)
    return inspect.cleandoc(getattr(module, attribute).__doc__ or "")
