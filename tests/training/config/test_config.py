"""Run configurations: accepted values, and messages about invalid ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from paths import SUPPORT

from warpdrive import registry
from warpdrive.errors import ConfigError
from warpdrive.training.algorithms.a2c import A2CConfig
from warpdrive.training.algorithms.ppo import PPOConfig
from warpdrive.training.config.load import load_config, shipped_configs
from warpdrive.training.config.schedule import Schedule, value_at
from warpdrive.training.config.schema import RandomConfig

MINIMAL = """\
env: {name: tag_gridworld, num_taggers: 4}
trainer: {num_envs: 100, train_batch_size: 1000, total_steps: 10000}
policy:
  tagger: {algorithm: ppo, clip: 0.1}
  runner: {algorithm: random}
"""


@pytest.fixture
def run_yaml(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(MINIMAL)
    return path


def sections(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "env": {"name": "tag_gridworld", "num_taggers": 4},
        "trainer": {"num_envs": 100, "train_batch_size": 1000, "total_steps": 10000},
        "policy": {"tagger": {"algorithm": "ppo"}, "runner": {"algorithm": "random"}},
    }
    return {**values, **changes}


def test_a_minimal_file_is_completed_with_defaults(run_yaml: Path) -> None:
    config = load_config(run_yaml)
    assert config.name == "tag_gridworld"
    assert config.env is not None and config.env.parameters == {"num_taggers": 4}
    assert config.trainer.rollout_length == 10
    assert isinstance(config.policy["tagger"], PPOConfig) and config.policy["tagger"].clip == 0.1
    assert isinstance(config.policy["runner"], RandomConfig)
    assert config.saving.folder == "runs"


def test_a_saved_configuration_reads_back_equal(tmp_path: Path) -> None:
    config = load_config(
        sections(),
        ["policy.tagger.lr=1e-5", "env.starting_location_x=[1, 2, 3, 4, 5]", "env.starting_location_y=[5, 4, 3, 2, 1]"],
    )
    config.save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize("name", sorted(shipped_configs()))
def test_shipped_configurations_are_valid_and_found_by_name(name: str) -> None:
    assert load_config(name).name == name.replace("/", "_")


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 0.001), ("1E-3", 0.001), ("1.5e-3", 0.0015), ("0.001", 0.001), ("1", 1)]
)
def test_numbers_with_an_exponent_are_numbers(text: str, value: float, run_yaml: Path) -> None:
    assert load_config(run_yaml, [f"policy.tagger.lr={text}"]).policy["tagger"].lr == value  # type: ignore[union-attr]


def test_whole_floats_count() -> None:
    assert load_config(sections(), ["trainer.total_steps=1e6"]).trainer.total_steps == 1_000_000


def test_overrides_reach_any_depth_and_the_last_one_wins(run_yaml: Path) -> None:
    overrides = [
        "trainer.num_envs=50",
        "trainer.evaluation.num_episodes=7",
        "policy.tagger.model.hidden=[8]",
        "env.num_taggers=2",
        "env.num_taggers=3",
    ]
    config = load_config(run_yaml, overrides)
    assert config.trainer.num_envs == 50 and config.trainer.evaluation.num_episodes == 7
    assert config.policy["tagger"].model.hidden == [8]  # type: ignore[union-attr]
    assert config.env is not None and config.env.parameters["num_taggers"] == 3


def test_changing_the_algorithm_drops_settings_it_does_not_have(run_yaml: Path) -> None:
    config = load_config(run_yaml, ["policy.tagger.algorithm=a2c", "policy.tagger.lr=0.01"])
    assert isinstance(config.policy["tagger"], A2CConfig) and config.policy["tagger"].lr == 0.01
    assert load_config(run_yaml, ["policy.tagger.algorithm=random"]).policy["tagger"] == RandomConfig(
        algorithm="random"
    )


TOO_LARGE = "{type: convolutional, kernel_size: 31, padding: false}"


@pytest.mark.parametrize(
    ("source", "override", "told"),
    [
        (
            "pendulum",
            "policy.agent.model={type: convolutional}",
            r"type: found 'convolutional' .*expected a Box of images",
        ),
        (
            "battle",
            f"policy.red.model={TOO_LARGE}",
            r"kernel_size: found 31 for images \(5, \d+, \d+\), of which nothing is left",
        ),
        ("battle", f"policy.red={{algorithm: dqn, model: {TOO_LARGE}}}", "kernel_size: found 31 for images"),
        (
            {
                "env": {"gymnasium": "FrozenLake-v1"},
                "trainer": {"num_envs": 2, "train_batch_size": 8, "total_steps": 8},
            },
            "policy.agent={algorithm: ppo, model: {scale_observations: true}}",
            r"scale_observations: found true for the observation space Discrete\(16\), expected a Box",
        ),
    ],
)
def test_models_that_do_not_fit_the_observations(source: Any, override: str, told: str) -> None:
    tag = override.split(".")[1].partition("=")[0]
    with pytest.raises(ConfigError, match=rf"policy\.{tag}\.model\.{told}"):
        load_config(source, [override])


def test_algorithms_are_for_some_actions_only() -> None:
    told = (
        r"algorithm: found 'dqn', expected an algorithm for actions in Box\(.*\): reinforce, a2c, ppo, ddpg, td3, sac,"
    )
    with pytest.raises(ConfigError, match=told):
        load_config("pendulum", ["policy.agent={algorithm: dqn}"])


@pytest.mark.parametrize(
    ("noise", "told"),
    [
        ("{type: ou, std: 0.1}", "noise.type: found 'ou' (a string), expected one of gaussian, ornstein_uhlenbeck."),
        ("{std: 0.1}", "noise.type: missing, expected one of gaussian, ornstein_uhlenbeck."),
        (
            "{type: ornstein_uhlenbeck, decays: 0.1}",
            "noise.decays: unknown key, expected one of type, std, decay. Did you mean 'decay'?",
        ),
        ("{type: gaussian, std: -1}", "noise.std: found -1 (an integer), expected a number greater than or equal to 0"),
    ],
)
def test_mistakes_in_exploration_noise_name_its_keys(noise: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"policy.agent.{told}")):
        load_config("pendulum", [f"policy.agent={{algorithm: ddpg, noise: {noise}}}"])


@pytest.mark.parametrize("algorithm", ["dqn", "qmix"])
def test_a_model_type_that_is_a_list_is_told(algorithm: str) -> None:
    with pytest.raises(ConfigError, match=r"policy\.agent\.model\.type: found \['gru'\] \(a list\)"):
        load_config("cartpole", [f"policy.agent={{algorithm: {algorithm}, model: {{type: [gru], unit: 3}}}}"])


def curve(name: str, steps: int = 400) -> dict[str, Any]:
    return {"schedule": name, "start": 5.0, "end": 1.0, "steps": steps}


@pytest.mark.parametrize(
    ("schedule", "env_steps", "value"),
    [(0.5, 10, 0.5), ([[10, 1.0], [20, 0.5], [40, 0.1]], 0, 1.0), ([[10, 1.0], [20, 0.5], [40, 0.1]], 15, 0.75)]
    + [([[10, 1.0], [20, 0.5], [40, 0.1]], steps, value) for steps, value in ((20, 0.5), (30, 0.3), (99, 0.1))]
    + [(curve("linear"), steps, value) for steps, value in ((0, 5.0), (100, 4.0), (400, 1.0), (900, 1.0))]
    # (1 + cos(pi t)) / 2 is 3/4 at t = 1/3 and 1/4 at t = 2/3
    + [(curve("cosine", 300), steps, value) for steps, value in ((0, 5.0), (100, 4.0), (200, 2.0), (300, 1.0))],
)
def test_schedules_by_hand(schedule: Schedule, env_steps: int, value: float) -> None:
    assert value_at(schedule, env_steps) == pytest.approx(value)


def test_curves_last_as_long_as_the_run_and_are_written_back(tmp_path: Path) -> None:
    overrides = [
        "policy.tagger.lr={schedule: cosine, start: 1e-3, end: 0}",
        "policy.tagger.clip=[[0, 0.3], [5e4, 0.1]]",
    ]
    config = load_config(sections(), overrides)
    for total_steps in (10_000, 20_000):  # as when a run is resumed for longer
        config = load_config(config.model_dump(mode="json"), [f"trainer.total_steps={total_steps}"])
        tagger = config.policy_over_the_run("tagger")
        assert isinstance(tagger, PPOConfig) and tagger.clip == [[0, 0.3], [5e4, 0.1]]
        assert tagger.lr == {"schedule": "cosine", "start": 1e-3, "end": 0, "steps": total_steps}
        config.save(tmp_path / "config.yaml")
        assert load_config(tmp_path / "config.yaml") == config


def test_the_given_dictionary_is_not_changed() -> None:
    given = sections()
    load_config(given, ["trainer.num_envs=10", "policy.tagger.clip=0.3"])
    assert given == sections()


# one row per mistake: the override that makes it, and what its one line must say
MISTAKES = [
    ("trainer.num_env=3", "trainer.num_env: unknown key", "Did you mean 'num_envs'?"),
    ("trainer.evaluation.episodes=3", "trainer.evaluation.episodes: unknown key", "'num_episodes'"),
    ("num_envs=3", "num_envs: unknown key", "It belongs to the section 'trainer'."),
    ("polcy=3", "polcy: unknown key", "Did you mean 'policy'?"),
    ("policy.tagger.hidden=[3]", "policy.tagger.hidden: unknown key", "section 'model'"),
    ("policy.tagger.filters=[3]", "policy.tagger.filters: unknown key", "section 'model'"),
    ("policy.tagger.model.type=convolved", "policy.tagger.model.type: found 'convolved'", "fully_connected, convolut"),
    ("policy.tagger.model={type: convolutional, filter: [3]}", "policy.tagger.model.filter: unknown", "'filters'"),
    ("policy.tagger.model={type: convolutional, stride: 0}", "policy.tagger.model.stride: found 0", "greater than"),
    ("policy.tagger.model={type: convolutional, stride: [1, 0]}", "policy.tagger.model.stride: found", "greater than"),
    ("policy.runner={algorithm: dqn, model: {type: gru}}", "policy.runner.model.type: found", "fully_conn"),
    ("policy.tagger.model.activaton=relu", "policy.tagger.model.activaton: unknown key", "'activation'"),
    (
        "policy.runner.lr=1e-3",
        "policy.runner.lr: unknown key for the algorithm 'random'",
        "belongs to reinforce, a2c, ppo",
    ),
    ("policy.runner={algorithm: a2c, clip: 0.1}", "policy.runner.clip: unknown key for the algorithm 'a2c'", "ppo"),
    ("policy.tagger.algorithm=pppo", "policy.tagger.algorithm: found 'pppo'", "Did you mean 'ppo'?"),
    ("policy.tagger.algorithm=PPO", "policy.tagger.algorithm: found 'PPO'", "Did you mean 'ppo'?"),
    (
        "policy.tagger.algorithm=MAPPO",
        "policy.tagger.algorithm: found 'MAPPO'",
        "'MAPPO' is {algorithm: ppo, centralized_critic: true}.",
    ),
    (
        "policy.tagger.algorithm=v-trace",
        "policy.tagger.algorithm: found",
        "is {algorithm: a2c, steps_per_update: N}, with N",
    ),
    ("policy.tagger={}", "policy.tagger.algorithm: missing", "one of reinforce, a2c, ppo, "),
    ("policy.taggr={algorithm: ppo}", "policy.taggr: unknown policy tag", "'tagger', 'runner'. Did you mean 'tagger'?"),
    ("policy={tagger: {algorithm: ppo}}", "policy.runner: missing", "'tagger', 'runner'"),
    ("trainer.num_envs=true", "trainer.num_envs: found True (a boolean)", "expected an integer"),
    ("trainer.num_envs='100'", "trainer.num_envs: found '100' (a string)", "expected an integer"),
    ("trainer.num_envs=1.5", "trainer.num_envs: found 1.5", "expected an integer"),
    ("trainer.num_envs=0", "trainer.num_envs: found 0", "greater than or equal to 1"),
    ("trainer.num_envs=", "trainer.num_envs: found None", "expected an integer"),
    ("trainer.num_envs=[1]", "trainer.num_envs: found [1] (a list)", "expected an integer"),
    ("trainer.train_batch_size=1060", "trainer.train_batch_size: found 1060", "the nearest is 1100"),
    ("trainer.train_batch_size=10", "trainer.train_batch_size: found 10", "the nearest is 100"),
    ("trainer.env_backend=cuda", "trainer.env_backend: found 'cuda'", "Did you mean 'pycuda'?"),
    ("trainer.seed=-1", "trainer.seed: found -1", "greater than or equal to 0"),
    ("policy.tagger.lr=fast", "policy.tagger.lr: found 'fast' (a string)", "expected a number"),
    ("policy.tagger.lr=0", "policy.tagger.lr: found 0", "greater than 0"),
    ("policy.tagger.lr=[[0, 1e-3], [100, -1]]", "policy.tagger.lr: found [[0, 0.001]", "numbers of at least 0"),
    ("policy.tagger.clip=[[5, 1], [5, 2]]", "policy.tagger.clip: found", "strictly increasing environment steps"),
    ("policy.tagger.lr={schedule: cosin, start: 1, end: 0}", "policy.tagger.lr: found", "linear or schedule: cosine"),
    ("policy.tagger.lr={schedule: linear, begin: 1, end: 0}", "policy.tagger.lr: found", "keys schedule, start, end"),
    ("policy.tagger.gamma={schedule: linear, start: 1, end: 2}", "policy.tagger.gamma: found", "numbers from 0 to 1"),
    ("policy.tagger.gamma=1.5", "policy.tagger.gamma: found 1.5", "less than or equal to 1"),
    ("policy.tagger.gamma=.nan", "policy.tagger.gamma: found nan", "finite"),
    ("policy.tagger.model.hidden=[8, x]", "policy.tagger.model.hidden.1: found 'x'", "expected an integer"),
    ("policy.tagger.minibatches=4001", "policy.tagger.minibatches: found 4001", "at most 4000"),
    ("policy.runner={algorithm: dqn, buffer_size: 999}", "policy.runner.buffer_size: found 999", "at least 1000"),
    ("policy.runner={algorithm: dqn, epsilon: 2}", "policy.runner.epsilon: found 2", "numbers from 0 to 1"),
    ("policy.runner={algorithm: dqn, epsilon: [1, 2]}", "policy.runner.epsilon: found [1, 2]", "pairs [environment"),
    (
        "policy.runner={algorithm: dqn, epsilon: [[9, 1], [3, 0]]}",
        "policy.runner.epsilon: found [[9, 1]",
        "strictly increasing",
    ),
    ("saving.tensorboard=maybe", "saving.tensorboard: found 'maybe'", "expected a boolean"),
    ("saving.keep_last=0", "saving.keep_last: found 0", "greater than or equal to 1"),
    ("trainer=5", "trainer: found 5", "expected a section"),
    ("policy=[tagger]", "policy: found ['tagger'] (a list)", "expected a section"),
    ("name=a/b", "name: found 'a/b'", "letters, digits"),
    ("policy.tager.lr=1e-3", "policy.tager: unknown policy tag", "Did you mean 'tagger'?"),
    ("savings.folder=here", "savings: unknown", "Did you mean 'saving'?"),
    ("env.name=tag_gridwrld", "env.name: ", "tag_gridworld"),
    ("env.num_tagers=3", "env.num_tagers: unknown parameter", "Did you mean 'num_taggers'?"),
    ("env.num_taggers=four", "env.num_taggers: found 'four'", "expected an integer"),
    ("env.use_full_observation=1", "env.use_full_observation: found 1", "expected a boolean"),
    ("env.num_taggers=0", "env.num_taggers: ", "0"),
]


@pytest.mark.parametrize(("override", "key_and_finding", "expectation"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_each_mistake_is_one_line_that_names_the_key(override: str, key_and_finding: str, expectation: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(sections(), [override])
    message = str(caught.value)
    assert message.startswith(f"command line: {key_and_finding}") and expectation in message
    assert "\n" not in message


def test_all_problems_are_told_at_once_with_the_file(run_yaml: Path) -> None:
    text = MINIMAL.replace("num_envs", "num_env").replace("clip: 0.1", "lr: fast").replace("num_taggers", "num_tagers")
    run_yaml.write_text(text.replace("runner:", "runer:"))
    with pytest.raises(ConfigError) as caught:
        load_config(run_yaml)
    lines = str(caught.value).splitlines()
    keys = {line.split(": ")[1] for line in lines[1:]}
    assert {"trainer.num_env", "policy.tagger.lr", "env.num_tagers", "policy.runer", "policy.runner"} <= keys
    assert all(line.strip().startswith(f"{run_yaml}: ") for line in lines[1:])
    assert lines[0] == f"{len(lines) - 1} problems:"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("# nothing but a comment\n", "the file is empty"),
        ("- a\n- b\n", "found a list at the top level"),
        ("just words\n", "found a str at the top level"),
        (MINIMAL + "name: a\nname: b\n", "line 7: the key 'name' is duplicated (first in line 6)"),
        ("trainer:\n  num_envs: 1\n  num_envs: 2\n", "line 3: the key 'num_envs' is duplicated (first in line 2)"),
        ("trainer: {num_envs: 1\n", "not valid YAML"),
        ("trainer:\n\tnum_envs: 1\n", "line 2: not valid YAML"),
        ("1: 2\n", "line 1: found the key 1, expected a name"),
        ("env: !!python/object:os.system {}\n", "line 1: not valid YAML"),
        ("name: \x00\n", "not valid YAML"),
        (f"trainer: {{seed: 0x{'f' * 5000}}}\n", "cannot be read as YAML's 'int'"),
    ],
)
def test_files_that_hold_no_configuration(text: str, told: str, run_yaml: Path) -> None:
    run_yaml.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(run_yaml)
    message = str(caught.value)
    assert message.startswith(f"{run_yaml}: ") and told in message and "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.yaml").mkdir()
    for name, told in [("absent.yaml", "no such file"), ("binary.yaml", "UTF-8"), ("folder.yaml", "cannot be read")]:
        with pytest.raises(ConfigError, match=told) as caught:
            load_config(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))


GAME = """
from warpdrive.envs.tag_gridworld import TagGridworld
class Game(TagGridworld):
    pass
"""


def test_the_file_of_an_environment_is_found_again_from_anywhere(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "game.py").write_text(GAME)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.py").write_text(GAME)
    monkeypatch.chdir(tmp_path / "elsewhere")
    run_yaml.write_text(MINIMAL.replace("name: tag_gridworld", "name: game.py:Game"))
    config = load_config(run_yaml)
    assert config.name == "Game"
    assert config.env is not None and config.env.name == f"{tmp_path / 'game.py'}:Game"
    overridden = load_config(run_yaml, ["env.name=other.py:Game"])
    assert overridden.env is not None and overridden.env.name == f"{tmp_path / 'elsewhere' / 'other.py'}:Game"
    with pytest.raises(ConfigError, match=r"no such file: 'no.py'"):
        load_config(run_yaml, ["env.name=no.py:Game"])


@pytest.mark.parametrize(
    ("game", "tags"), [("Echo", ("even", "odd")), ("Spell", ("inner", "outer")), ("Aim", ("aimer", "chooser"))]
)
def test_an_environment_without_a_run_configuration_has_default_policies(game: str, tags: tuple[str, ...]) -> None:
    overrides = ["trainer.num_envs=20", "trainer.total_steps=1e3", f"policy.{tags[0]}.lr=0.5"]
    config = load_config(f"{SUPPORT / 'games.py'}:{game}", [*overrides, f"policy.{tags[1]}.algorithm=a2c"])
    assert config.name == game and config.policy == {tags[0]: PPOConfig(lr=0.5), tags[1]: A2CConfig()}
    assert (config.trainer.num_envs, config.trainer.rollout_length, config.trainer.total_steps) == (20, 32, 1000)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("games.py:Ecko", r"games.py:Ecko: env.name: .* has no class 'Ecko'. Did you mean 'Echo'"),
        ("games.py:Quidditch", r"games.py:Quidditch: env.name: .* has no class 'Quidditch'. It has: .*Echo, "),
        ("games.py", "games.py: expected a YAML file, or the class as well: games.py:Echo"),
        ("no.py", "no.py: expected a YAML file, or the class as well: no.py:MyEnv"),
    ],
)
def test_a_file_without_such_a_class(source: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(str(SUPPORT / source))


def test_a_registered_environment_needs_no_run_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {"echo": f"{SUPPORT / 'games.py'}:Echo"})
    assert load_config("echo").policy == {"even": PPOConfig(), "odd": PPOConfig()}


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tag_gridworld'"):
        load_config("tag_gridwrld")


def test_sections_that_are_missing_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({})
    assert all(f": {key}: missing" in str(caught.value) for key in ("env.name", "trainer", "policy"))


@pytest.mark.parametrize("override", ["trainer.num_envs", "=3", "trainer.=3", ".num_envs=3"])
def test_an_override_that_is_none(override: str) -> None:
    with pytest.raises(ConfigError, match="expected key=value"):
        load_config(sections(), [override])


def test_an_override_below_a_value() -> None:
    with pytest.raises(ConfigError, match=r"trainer\.num_envs\.x: 'trainer\.num_envs' is a value"):
        load_config(sections(), ["trainer.num_envs.x=3"])
