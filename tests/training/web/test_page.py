"""Pages of games in a browser: played by policies and by people, repeated from a link, and verified."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from browser import Opened, browser, opened  # noqa: F401 (fixtures)
from gymnasium import spaces

import warpdrive as wd
from warpdrive.envs.cartpole import CartPole
from warpdrive.envs.connect_four import ConnectFour
from warpdrive.errors import CheckpointError, ConfigError, DefinitionError
from warpdrive.training.checkpoint.checkpoint import Checkpoint, read_models, write_checkpoint
from warpdrive.training.checkpoint.space_description import describe_space
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.trainer import make_env
from warpdrive.training.web import page as page_module
from warpdrive.training.web.game import Game
from warpdrive.training.web.page import PageOptions, WebPage, controls_of, web_page
from warpdrive.training.web.source import learned_by, source_of

HIDDEN = [f"policy.{tag}.model.hidden=[8]" for tag in ("tagger", "runner")]
READY = "window.warpdrive && warpdrive.game"
STEPS = 1000
RIGHT = 1
"""Action of a move to the right."""


@pytest.fixture(scope="module")
def game(make: Any) -> Any:
    """Give replicas of a game of two taggers and a runner, and policies that nobody trained."""
    return make("tag_gridworld", "env.num_taggers=2", "env.grid_length=20", *HIDDEN)


@pytest.fixture(scope="module")
def page(game: Any) -> WebPage:
    """Give the page of that game."""
    return web_page(*game, PageOptions("Tag", "About <tag>", replicas=2, verified_steps=STEPS))


@pytest.fixture(scope="module")
def file(page: WebPage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "tag.html"
    path.write_text(page.html)
    return path


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file of the page of a game in turns, which red begins."""
    path = tmp_path_factory.mktemp("pages") / "four.html"
    env = wd.EnvWrapper(ConnectFour(starts="red"), env_backend="cpu")
    path.write_text(web_page(env, {}, PageOptions("Four", "About", verified_steps=10)).html)
    return path


def ready(tab: Any) -> Any:
    tab.wait_for_function(READY)
    tab.evaluate("warpdrive.run(false)")
    return tab


def advance(tab: Any, steps: int) -> None:
    tab.evaluate(f"for (let step = 0; step < {steps}; step++) warpdrive.advance()")


def values(tab: Any, name: str) -> np.ndarray:
    return np.array(tab.evaluate(f"Array.from(warpdrive.game.values('{name}'))"))


DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>')


def test_a_page_is_small_and_needs_nothing_else(page: WebPage) -> None:
    assert "<" not in DATA.search(page.html)[1], "names that begin a comment or a script would hide the end"  # type: ignore[index]
    assert len(page.html) < 300_000
    assert not re.search(r"https?://|import |src=|<link", page.html)
    assert page.policies == ["tagger", "runner"]


def test_it_plays_what_the_native_backend_plays(file: Path, game: Any, opened: Opened) -> None:  # noqa: F811
    tab = ready(opened(file))
    advance(tab, 300 - tab.evaluate("warpdrive.game.step"))
    env, policies = game
    native = Game(env.like(2, env.seed), policies)
    for _ in range(300):
        native.step()
    for name in ("loc_x", "loc_y", "rewards", "timestep", "episode.return_sum", "sampler.rng"):
        assert values(tab, name).tolist() == native.env.ctx[name].numpy().ravel().tolist(), name


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (390, 800)])
def test_it_verifies_itself_on_wide_and_narrow_screens(
    file: Path,
    page: WebPage,
    width: int,
    height: int,
    opened: Opened,  # noqa: F811
) -> None:
    tab = opened(file, width, height)
    tab.wait_for_function(READY)
    tab.wait_for_function("warpdrive.game.step > 3")  # it plays by itself
    for canvas in tab.query_selector_all("#stage canvas"):
        box = canvas.bounding_box()
        assert box["width"] > 50 and box["x"] >= 0 and box["x"] + box["width"] <= width
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.click("#verify")
    tab.wait_for_selector(".right", timeout=60_000)
    assert f"{STEPS} steps of 2 replicas" in tab.inner_text("#verdict") and page.digest in tab.inner_text("#verdict")


def test_people_play_by_keys_and_a_link_repeats_the_game(file: Path, opened: Opened) -> None:  # noqa: F811
    tab = ready(opened(file))
    tab.click("#restart")
    tab.select_option("#first", "0")
    tab.select_option("#second", "2")
    tab.keyboard.down("ArrowRight")
    tab.keyboard.down("w")
    advance(tab, 12)
    assert values(tab, "actions").reshape(2, 3)[0, [0, 2]].tolist() == [RIGHT, 3]
    tab.keyboard.up("ArrowRight")
    advance(tab, 1)
    assert values(tab, "actions").reshape(2, 3)[0, 0] == 0
    tab.keyboard.press("ArrowRight")
    advance(tab, 1)
    assert values(tab, "actions").reshape(2, 3)[0, 0] == RIGHT
    advance(tab, 1)
    assert values(tab, "actions").reshape(2, 3)[0, 0] == 0
    tab.keyboard.up("w")
    tab.select_option("#first", "")
    advance(tab, 20)
    address, state = tab.evaluate("[warpdrive.address(), warpdrive.game.digest()]")
    again = ready(opened(address))
    advance(again, 35 - again.evaluate("warpdrive.game.step"))
    assert again.evaluate("warpdrive.game.digest()") == state
    random = ready(opened(file))
    advance(random, 35 - random.evaluate("warpdrive.game.step"))
    assert random.evaluate("warpdrive.game.digest()") != state


def test_fingers_hold_the_buttons_of_controls(file: Path, opened: Opened) -> None:  # noqa: F811
    tab = ready(opened(file, 390, 800, has_touch=True))
    tab.select_option("#first", "1")
    button = tab.get_by_label("right of player 1")
    button.dispatch_event("pointerdown", {"pointerId": 1})
    advance(tab, 2)
    assert values(tab, "actions").reshape(2, 3)[0, 1] == RIGHT
    button.dispatch_event("pointerup", {"pointerId": 1})
    advance(tab, 1)
    assert values(tab, "actions").reshape(2, 3)[0, 1] == 0


def test_a_game_in_turns_waits_for_people(four: Path, opened: Opened) -> None:  # noqa: F811
    """Red begins: a key that is held is one move, after which yellow moves; a full column is no move."""
    tab = opened(four)
    tab.wait_for_function(READY)
    tab.select_option("#speed", label="as fast as possible")
    tab.select_option("#first", "0")
    tab.click("#restart")
    tab.wait_for_timeout(300)
    assert tab.evaluate("warpdrive.game.step") == 0
    for moves in (1, 2):
        tab.keyboard.down("4")
        tab.wait_for_function(f"warpdrive.game.step === {2 * moves}")
        tab.wait_for_timeout(300)
        assert tab.evaluate("warpdrive.game.step") == 2 * moves
        tab.keyboard.up("4")
    assert values(tab, "discs").reshape(2, 6, 7)[0, :, 3].sum() == 2
    tab.evaluate("warpdrive.game.values('action_mask').fill(0)")
    tab.keyboard.down("4")
    tab.wait_for_timeout(300)
    assert tab.evaluate("warpdrive.game.step") == 4


def test_the_end_of_a_game_stays_until_somebody_presses_a_key(four: Path, opened: Opened) -> None:  # noqa: F811
    """Red has four discs in a row after its fourth move; two people share the keys of a game in turns."""
    tab = opened(four)
    tab.wait_for_function(READY)
    tab.select_option("#first", "0")
    tab.select_option("#second", "1")
    tab.click("#restart")
    for moves, key in enumerate("4151617", start=1):
        tab.keyboard.press(key)  # down and up before the next frame
        tab.wait_for_function(f"warpdrive.game.step === {moves}")
    tab.wait_for_function("document.querySelector('#state').textContent.includes('press a key')")
    tab.wait_for_timeout(1000)
    assert values(tab, "discs").reshape(2, 6, 7)[0].sum() == 4
    tab.keyboard.press("7", delay=1000)
    tab.wait_for_function("warpdrive.game.step === 8")
    assert values(tab, "discs").sum() == 0


def test_seed_replicas_and_constants_are_the_readers(file: Path, opened: Opened) -> None:  # noqa: F811
    tab = ready(opened(file))
    first = values(tab, "sampler.rng").reshape(2, -1, 4)
    tab.fill("#seed", "99")
    tab.press("#seed", "Enter")
    tab.fill("#replicas", "3")
    tab.press("#replicas", "Enter")
    assert values(tab, "sampler.rng").reshape(3, -1, 4)[:, 0, [0, 2]].tolist() == [[99, 0], [99, 1], [99, 2]]
    assert first[0, 0, 0] == 11
    wrong = ready(opened(f"{tab.url.split('#')[0]}#seed=x&replicas=2.6"))
    assert values(wrong, "sampler.rng").reshape(3, -1, 4)[0, 0, 0] == 11
    tab.click("summary:has-text('Constants')")
    slider = tab.get_by_label("wall_hit_penalty", exact=True)
    slider.evaluate("slider => { slider.value = 0.05; slider.dispatchEvent(new Event('input')); }")
    slider.dispatch_event("change")
    chosen = tab.evaluate("warpdrive.settings.numbers.wall_hit_penalty")
    assert f"wall_hit_penalty:{chosen}" in tab.evaluate("warpdrive.address()")
    assert values(tab, "wall_hit_penalty").tolist() == [np.float32(chosen)]
    tab.click("summary:has-text('Arrays')")
    tab.select_option("#array", "loc_x")
    assert "[3] of replica 0" in tab.inner_text("#values")


def test_controls_are_checked() -> None:
    env = wd.EnvWrapper("cartpole", env_backend="cpu")
    assert controls_of(env) == {"agent": {"left": 0, "right": 1}}
    env.env.controls = {}
    assert controls_of(env) == {"agent": {"0": 0, "1": 1}}
    for wrong in ({"left": 2}, {"sideways": 0}, {"left": {0: 1}}, ["left"]):
        env.env.controls = wrong
        with pytest.raises(DefinitionError, match="environment CartPole: controls"):
            controls_of(env)
    pushes = wd.EnvWrapper("pendulum", env_backend="cpu")
    for value in (math.nan, math.inf, "1", np.float32(1)):
        pushes.env.controls = {"left": {0: value}}
        with pytest.raises(DefinitionError, match="environment Pendulum: controls"):
            controls_of(pushes)


def test_only_finite_constants_have_a_slider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "per_replica_attributes", lambda environment: ("length", "limit"))
    replicas = {"length": torch.tensor([0.5, 1.0]), "limit": torch.tensor([torch.inf, 1.0])}
    env, program = SimpleNamespace(env=CartPole(), ctx=replicas), SimpleNamespace(description={"arrays": []})
    assert page_module._settable(env, program) == [{"name": "length", "value": 0.5}]  # type: ignore[arg-type]


def test_past_versions_of_nobody_act_at_random() -> None:
    policy = {"agent": {"algorithm": "self_play", "of": "nobody"}}
    sizes = {"num_envs": 2, "train_batch_size": 20, "total_steps": 20}
    raw = {"name": "run", "env": {"name": "cartpole"}, "trainer": sizes, "policy": policy}
    assert learned_by(RunConfig.model_validate(raw), "agent") is None


def test_the_command_writes_a_page_of_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cartpole.html"
    assert (
        main(["web", "cartpole", "env.gravity=5", "-o", str(path), "--verified-steps", "50", "--seed", str(2**63 - 1)])
        == 0
    )
    assert f"{path}  (" in capsys.readouterr().out
    data = json.loads(DATA.search(path.read_text())[1])  # type: ignore[index]
    assert data["seed"] == str(2**63 - 1), "which a number of JavaScript cannot be"
    assert {"name": "gravity", "value": 5.0} in data["settable"]
    assert data["verify"]["steps"] == 50


def test_a_trainer_is_shown_live_in_a_notebook(tmp_path: Path, opened: Opened) -> None:  # noqa: F811
    config = load_config(
        "cartpole", ["trainer.num_envs=4", f"saving.folder={tmp_path}", "policy.agent.model.hidden=[8]"]
    )
    page = wd.live(wd.Trainer(make_env(config), config), tmp_path / "page.html", verified_steps=10)
    assert page.policies == ["agent"]
    assert (tmp_path / "page.html").read_text() == page.html
    (tmp_path / "notebook.html").write_text(page._repr_html_())
    frame = opened(tmp_path / "notebook.html").frames[1]
    frame.wait_for_function("window.warpdrive && warpdrive.game.step > 3")


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (CartPole, {}, "source is an object of type CartPole, expected a Trainer, an EnvWrapper, a run"),
        ("cartpole", {"replicas": 0}, "replicas is 0, expected an integer from 1 to"),
        ("cartpole", {"fps": float("nan")}, "fps is nan, expected a number greater than 0"),
        ("cartpole", {"fps": "10"}, "fps is '10', expected a number greater than 0"),
        ("cartpole", {"verified_steps": -1}, "verified_steps is -1, expected an integer from 1 to"),
        ("cartpole", {"random": "agent"}, r"expected a list of policy tags: \['agent'\]"),
        (
            lambda: wd.EnvWrapper("cartpole", env_backend="cpu"),
            {"random": ["agnt"]},
            "unknown policy tag 'agnt', expected one of agent. Did you mean 'agent'",
        ),
        (
            lambda: wd.HostEnv(lambda: gymnasium.make("CartPole-v1"), 2, env_backend="cpu"),
            {},
            "is of another library, and has no kernels",
        ),
    ],
)
def test_wrong_arguments_of_a_live_page_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, arguments: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)  # where there are no runs, which come first
    with pytest.raises(wd.WarpDriveError, match=message):
        wd.live(source() if callable(source) else source, **arguments)


def test_policies_of_another_environment_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["trainer.num_envs=4", "trainer.env_backend=cpu", "saving.folder=runs", "policy.agent.model.hidden=[8]"]
    config = load_config("cartpole", small)
    wd.Trainer(make_env(config), config).save("saved/step_1")
    assert list(source_of("saved/step_1").policies) == ["agent"]
    saved = read_models(Path("saved/step_1"))
    settings, described, parameters = saved.config["policy"]["agent"], saved.spaces["agent"], saved.models["agent"]

    renamed = saved.config | {"policy": {"other": settings}}
    write_checkpoint(Path("renamed/step_1"), Checkpoint(renamed, {"other": described}, {"other": parameters}, {}))
    with pytest.raises(CheckpointError, match=r"it has a policy of 'other', but the policy tags of .* are agent"):
        source_of("renamed/step_1")

    others = {"observation": describe_space(spaces.Box(-1.0, 1.0, (4,)))}
    write_checkpoint(Path("changed/step_1"), Checkpoint(saved.config, {"agent": described | others}, saved.models, {}))
    with pytest.raises(
        CheckpointError, match=r"the observation space of 'agent' was Box\(-1.0, .*, but that of .* is Box"
    ):
        source_of("changed/step_1")


def test_a_name_is_that_of_a_run_unless_keys_are_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="cartpole: neither a run folder"):
        source_of("cartpole", which="best")
    config = load_config("cartpole", ["trainer.num_envs=4", "trainer.env_backend=cpu"])
    wd.Trainer(make_env(config), config).save("runs/cartpole/first/checkpoints/step_1")
    Path("runs/cartpole/first/config.yaml").touch()
    assert list(source_of("cartpole").policies) == ["agent"]
    changed = source_of("cartpole", ["env.gravity=5"])
    assert (changed.policies, changed.env.env.gravity) == ({}, 5.0)  # type: ignore[attr-defined]


def test_an_unknown_tag_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown policy tag 'runer'.*Did you mean 'runner'"):
        source_of("tag_gridworld", random=["runer"])
