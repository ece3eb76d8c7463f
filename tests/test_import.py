"""Effects of ``import warpdrive``, and the direction of imports between packages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT

import warpdrive
from warpdrive.training.cli.main import main

FOLDERS = {"warpdrive": "warpdrive", "warpdrive.envs": "envs", "warpdrive.training": "training"}
HEAVY = {"torch", "numba", "numpy", "matplotlib", "gymnasium", "pydantic"}
UNUSED_BY_TRAINING = {
    "matplotlib",
    "PIL",
    "imageio_ffmpeg",
    "lightning",
    "pandas",
    "scipy.linalg",  # by numba, to compile
    "sympy",
    "torch._dynamo",  # takes a second
    "torch._inductor",
    "torch.onnx",
    "wandb",
    "warpdrive.checks",
    "warpdrive.training.plots",
    "warpdrive.training.report",
}


def modules_loaded_by(code: str) -> set[str]:
    """Return the names in ``sys.modules`` of a fresh interpreter after it ran ``code``."""
    program = f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\nprint('\\n' + ' '.join(sys.modules))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(process.stdout.splitlines()[-1].split())


def test_importing_loads_nothing_heavy():
    loaded = modules_loaded_by("import warpdrive")
    assert not loaded & HEAVY
    assert not any(name.startswith("warpdrive.") for name in loaded)


def test_the_help_of_the_command_loads_nothing_heavy():
    loaded = modules_loaded_by("from warpdrive.training.cli.main import main; main(['--help'])")
    assert "warpdrive.training.cli.main" in loaded
    assert not loaded & HEAVY


def test_training_loads_only_what_it_needs(tmp_path):
    sizes = ["trainer.total_steps=4096", f"saving.folder={tmp_path}", "--no-replay", "--no-report"]
    main(["train", "cartpole", *sizes])  # compiles
    run = f"from warpdrive.training.cli.main import main; main(['train', 'cartpole', *{sizes}])"
    loaded = modules_loaded_by(run)
    assert {"torch", "numba", "warpdrive.training.run.loop"} <= loaded
    assert not loaded & UNUSED_BY_TRAINING
    assert len(list(tmp_path.glob("*/*/tensorboard/events.out.tfevents.*"))) == 2


@pytest.mark.parametrize("name", warpdrive.__all__)
def test_every_public_name_resolves(name):
    assert getattr(warpdrive, name) is not None


def test_dir_lists_the_public_names():
    assert dir(warpdrive) == sorted(warpdrive.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="EnvWraper"):
        warpdrive.EnvWraper  # noqa: B018


# --- imports run one way ---


@cache
def layers() -> list[list[str]]:
    """Return the layers as docs/project/architecture.md gives them, the lowest first: lists of module names."""
    text = (ROOT / "docs" / "project" / "architecture.md").read_text()
    sentence = re.search(r"Imports run one way: (.*?)\.\n", text, re.DOTALL)
    assert sentence, "docs/project/architecture.md no longer says which way imports run"
    named = [re.findall(r"`([\w.]+)`", layer) for layer in sentence.group(1).split("<-")]
    assert named[-1] == [], "the last layer is the command line"
    named[-1] = ["__main__", "training.cli"]
    return named


def layer_of(module: str) -> int | None:
    """Return the number of the layer that the most specific entry gives ``module`` (without ``warpdrive.``)."""
    found = [
        (len(name), number)
        for number, layer in enumerate(layers())
        for name in layer
        if module == name or module.startswith(f"{name}.")
    ]
    return max(found)[1] if found else None


def all_modules() -> dict[str, Path]:
    """Return every module of the package by name (without ``warpdrive.``)."""
    modules = {}
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *(part for part in parts if part != "__init__")])
            modules[name.removeprefix("warpdrive").removeprefix(".")] = path
    return modules


MODULES = all_modules()


def imports_at_run_time(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of ``tree`` that are not there for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        yield from imports_at_run_time(node)


def home_of(name: str) -> str:
    """Return the module (without ``warpdrive.``) that a dotted name below ``warpdrive`` comes from."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in MODULES:
            return ".".join(parts[:length])
    return warpdrive._HOME_OF.get(parts[0], "").removeprefix("warpdrive.")


@cache
def imported_by(module: str) -> dict[str, int]:
    """Return the modules of ours that ``module`` imports, also through the lazy names of ``warpdrive``, with lines."""
    path = MODULES[module]
    tree = ast.parse(path.read_text())
    found: dict[str, int] = {}
    for node in imports_at_run_time(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            origin = f"{node.module}."
            names = [f"{origin}{alias.name}" for alias in node.names] if origin.startswith("warpdrive.") else []
        else:
            names = [alias.name for alias in node.names if alias.name.startswith("warpdrive.")]
            for alias in node.names:
                if alias.name == "warpdrive":
                    used = re.findall(rf"\b{alias.asname or alias.name}\.(\w+)", path.read_text())
                    names += [name for name in used if name in warpdrive._HOME_OF or name in MODULES]
        for name in names:
            found.setdefault(home_of(name.removeprefix("warpdrive.")), node.lineno)
    return {name: line for name, line in found.items() if name not in ("", module)}


def imports() -> dict[str, dict[str, int]]:
    return {module: imported_by(module) for module in MODULES}


def line_of(module: str, other: str) -> str:
    return f"{MODULES[module].relative_to(ROOT)}:{imported_by(module)[other]}: '{module}' imports '{other}'"


@pytest.mark.parametrize("module", sorted(set(MODULES) - {""}))
def test_imports_run_one_way(module):
    own = layer_of(module)
    assert own is not None, f"docs/project/architecture.md does not say which layer '{module}' belongs to"
    for other in imported_by(module):
        layer = layer_of(other)
        assert layer is not None, f"docs/project/architecture.md does not say which layer '{other}' belongs to"
        assert layer <= own, f"{line_of(module, other)}, which stands above it in docs/project/architecture.md"
        assert {module.split(".")[0], other.split(".")[0]} != {"envs", "training"}, (
            f"{line_of(module, other)}: environments and training know nothing of each other"
        )


BACKENDS = {f"backends.{name}" for name in ("cpu", "numba_cuda", "pycuda")}


def test_no_backend_imports_another():
    def backend_of(module):
        return next((name for name in BACKENDS if module == name or module.startswith(f"{name}.")), None)

    lines = [
        line_of(module, other)
        for module, imported in imports().items()
        for other in imported
        if backend_of(module) and backend_of(other) not in (None, backend_of(module))
    ]
    assert not lines, "\n".join(lines)


def test_no_imports_go_in_circles():
    """Also those within functions; only those for type checkers may."""
    left = imports()
    while True:  # take away what imports nothing that is left
        free = [module for module, imported in left.items() if not set(imported) & set(left)]
        if not free:
            break
        for module in free:
            del left[module]
    lines = [line_of(module, other) for module, imported in left.items() for other in imported if other in left]
    assert not left, "\n".join(lines)


WITHOUT_UNIX = """
import os, signal, sys
import matplotlib, numba, pydantic, rich, torch.distributed  # have ways of their own
for name in ("resource", "pwd", "grp", "termios", "fcntl"):
    sys.modules[name] = None
del os.getuid, signal.SIGHUP, signal.SIGKILL
sys.modules["warpdrive.file_lock"] = sys  # other functions there
sys.locked = sys.is_locked = None
"""


def test_modules_are_imported_where_there_is_no_unix():
    """Simulates Windows: no user ids, no resource limits, no SIGHUP."""
    names = ("train", "autoscale", "sweep", "evaluate", "plot", "replay", "export", "check", "envs", "init", "schema")
    program = WITHOUT_UNIX + "".join(f"import warpdrive.training.cli.{name}\n" for name in names)
    program += "import warpdrive.training.distributed.launch, warpdrive.private, warpdrive.backends.host.interrupts\n"
    program += "print(warpdrive.private.user_folder('kernels').name)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "kernels\n", done.stderr
