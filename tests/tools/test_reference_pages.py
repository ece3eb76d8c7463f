"""The reference pages are those generated from the code, and complete; commands in the documentation exist."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

import warpdrive as wd
from warpdrive.training.cli import parser as command_line

sys.path.append(str(ROOT / "tools"))
reference_pages = importlib.import_module("reference_pages")
api, commands, configuration = (
    importlib.import_module(f"reference_docs.{name}") for name in ("api", "commands", "configuration")
)

PAGES = dict(reference_pages.pages())
REFERENCE = ROOT / "docs" / "reference"
KEYS, COMMANDS = PAGES[REFERENCE / "configuration.md"], PAGES[REFERENCE / "commands.md"]
SPECIAL = (";", "&&", "|", ">", ">>", "<")
"""Words of a shell behind which another command, or a file, stands."""
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "tutorials").glob("*.py")),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_committed_page_is_that_of_the_code(path: Path) -> None:
    assert path.read_text() == PAGES[path], "run make generated"


def test_there_are_no_other_pages_of_the_api() -> None:
    assert set((REFERENCE / "api").iterdir()) == {path for path in PAGES if path.parent.name == "api"}


def test_pages_of_others_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "notes.md").write_text("# Notes\n")
    (tmp_path / "api" / "former.md").write_text(f"{reference_pages.GENERATED} from a module; do not edit. -->\n")
    monkeypatch.setattr(reference_pages, "REFERENCE", tmp_path)
    monkeypatch.setattr(reference_pages, "pages", lambda: ())
    reference_pages.main()
    assert [path.name for path in (tmp_path / "api").iterdir()] == ["notes.md"]


def test_explanations_are_of_keys_that_exist() -> None:
    algorithms = re.findall(r"^### `algorithm: (\w+)`$", KEYS, re.MULTILINE)
    names = set(re.findall(r'<a id="([^"]+)">', KEYS)) | set(algorithms)
    assert not set(importlib.import_module("reference_docs.explained").EXPLAINED) - names


def test_every_key_has_a_row_with_its_effect() -> None:
    rows = re.findall(r'^\| <a id="[^"]+"></a>`(\w+)` \| (.+?) \| (.+?) \| (.+) \|$', KEYS, re.MULTILINE)
    assert {key for key, *_ in rows} >= {name.rpartition(".")[2] for name in configuration.documented_keys()}
    assert all(len(effect) > 10 for *_, effect in rows)


@pytest.mark.parametrize("name", ["ppo", "a2c", "dqn", "pqn", "ddpg", "td3", "sac", "reinforce", "custom"])
def test_every_key_of_an_algorithm_is_in_its_table_or_the_shared_one(name: str) -> None:
    section = configuration.POLICY_CONFIGS[name]
    shared = set(re.findall(r'<a id="policy\.(\w+)">', KEYS)) - {"algorithm"}
    own = set(re.findall(rf'<a id="{name}\.(\w+)">', KEYS))
    missing = {"returns_after_leaving"} if name == "custom" else set()  # as the page says
    assert own.isdisjoint(shared)
    assert own | shared - missing == set(section.model_fields) - {"algorithm"}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("trainer.torch_threads", "integer from 1 to 1024, or `null` | `null` |"),
        ("trainer.num_envs", "integer from 1 to 2147483647 | required |"),
        ("trainer.env_backend", "`auto`, `cpu`, `numba`, `pycuda` | `auto` |"),
        ("policy.lr", "[schedule](#schedules) of numbers > 0 | `0.0003` |"),
        ("policy.gamma", "[schedule](#schedules) of numbers from 0 to 1 | `0.99` |"),
        ("model.hidden", "list of integers from 1 to 1048576 | `[64, 64]` (`fully_connected`); `[64]`"),
        ("self_play.of", "string | required |"),
    ],
)
def test_types_ranges_and_defaults_are_those_of_the_schema(key: str, text: str) -> None:
    assert f'| <a id="{key}"></a>`{key.rpartition(".")[2]}` | {text}' in KEYS


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_every_command_is_described_with_its_options_and_an_example(name: str) -> None:
    section = re.search(rf"^## `warpdrive {name}`\n(.*?)(?=^## )", COMMANDS, re.MULTILINE | re.DOTALL)
    assert section is not None
    for option in commands.options(commands.commands()[name]):
        text = COMMANDS if option.option_strings[-1] in commands.COMMON else section[1]
        assert all(f"`{spelling}" in text for spelling in option.option_strings)
    examples = re.findall(rf"^(.*)\nwarpdrive {name}\b(?! \[options\])", section[1], re.MULTILINE)
    assert examples
    assert all(line.startswith("# ") for line in examples), "an example needs an explanation, see the epilogs"


def test_every_target_of_make_is_described() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert all(f"| `make {target}` |" in COMMANDS for target in targets)


def test_every_public_name_is_on_a_page() -> None:
    missing = {name for name in wd.__all__ if f"warpdrive.{name}" not in api.documented()}
    assert missing == {"__version__"}, "add it to a subject of tools/reference_docs/api.py"
    assert "wd.__version__" in PAGES[REFERENCE / "api" / "index.md"]


@pytest.mark.parametrize("module", ["draw", "math", "random", "testing"])
def test_every_function_of_a_public_module_is_on_a_page(module: str) -> None:
    members = vars(getattr(wd, module))
    own = {
        name
        for name, value in members.items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == f"warpdrive.{module}"
    }
    assert own
    assert {f"warpdrive.{module}.{name}" for name in own} <= api.documented()


def test_every_summary_is_one_sentence_at_least() -> None:
    for path, text in PAGES.items():
        if path.parent.name == "api":
            rows = re.findall(r"^\| \[`[^`]+`\]\([^)]+\) \| (.*) \|$", text, re.MULTILINE)
            assert rows and all(len(row) > 10 and ":meth:" not in row for row in rows), path


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each ``warpdrive`` command in the fenced blocks of a page."""
    for block in re.findall(r"^ *```(?:bash|text|console|sh)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:python -m )?warpdrive ([a-z]+(?![a-z:]).*)$", line)
            if found and "[options]" not in line:
                words = shlex.split(found[1], comments=True)
                end = next((number for number, word in enumerate(words) if word in SPECIAL), len(words))
                yield words[:end]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_page_exist(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".py":  # a notebook as a program, whose text is in comments
        text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
    for arguments in commands_in(text):
        options = command_line.parse(arguments)
        if options.command in ("train", "autoscale", "sweep"):
            for override in options.overrides:
                assert is_known_key(override.partition("=")[0]), " ".join(arguments)


def is_known_key(key: str) -> bool:
    """Return True if a dotted key is in the page of configuration keys; parameters of environments are not checked."""
    if key.startswith("policy."):
        return f'.{key.rpartition(".")[2]}"></a>' in KEYS
    return key.startswith("env.") or f'<a id="{key}"></a>' in KEYS or f'<a id="run.{key}"></a>' in KEYS


def test_commands_of_pages_are_found_and_wrong_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    text = "```bash\n$ NO_COLOR=1 warpdrive train x.yaml --wacth  # comment\nwarpdrive envs | head\n```\n"
    first, second = commands_in(text)
    assert (first, second) == (["train", "x.yaml", "--wacth"], ["envs"])
    with pytest.raises(SystemExit):
        command_line.parse(first)
    assert "unknown argument '--wacth'" in capsys.readouterr().err
    assert not is_known_key("trainer.thread")
    assert is_known_key("policy.agent.lr")
