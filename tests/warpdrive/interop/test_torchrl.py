"""Environments as TorchRL's: its conformance check, and rollouts compared with those of an EnvWrapper."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from environment_parameters import UNLIKE
from exhaustive import exhaustive
from games import Fuse, Leave, Revealed, Spell
from sound_environments import CatAndMice

import warpdrive as wd
from warpdrive import actions
from warpdrive.errors import DefinitionError

# TorchRL takes seconds to import: only the process that runs these tests does, not each that collects them.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchrl") is None, reason="the extra `torchrl`")

SMALL = {
    "battle": {"agents_per_team": 6, "map_size": 12},
    "flock": {"num_boids": 6, "num_neighbours": 3, "episode_length": 9},
    "simple_tag": {"episode_length": 9},
    "tag_continuous": {"num_taggers": 2, "num_runners": 3, "episode_length": 9},
}


def made(env, num_envs=7, **options):  # no number of agents, which would need code of its own
    if isinstance(env, type):
        return wd.to_torchrl(env(), num_envs, env_backend="cpu", **options)
    return wd.to_torchrl(env, num_envs, env_backend="cpu", env_config=SMALL.get(env, {}), **options)


@pytest.mark.parametrize("name", [*exhaustive([*UNLIKE, Leave, Revealed, Spell], ("cartpole",)), CatAndMice])
def test_every_environment_conforms(name):
    from torchrl.envs.utils import MarlGroupMapType, check_env_specs

    replicas = made(name).replicas
    for index, groups in enumerate([None, *MarlGroupMapType]):
        if (name, groups) == (CatAndMice, MarlGroupMapType.ALL_IN_ONE_GROUP):
            with pytest.raises(DefinitionError, match="'agents' has agents whose spaces cannot be stacked"):
                wd.to_torchrl(replicas, group_map=groups)
            continue
        env = wd.to_torchrl(replicas, group_map=groups, categorical_actions=index % 2 == 0)
        check_env_specs(env, seed=index, break_when_any_done="both")
        env.rollout(12, break_when_any_done=False)


def test_entries_are_by_tag_and_at_the_root_for_a_single_agent():
    entries = made("simple_tag").rollout(2)
    assert entries["adversary", "observation"].shape == (7, 2, 3, 16)
    assert entries["good_agent", "action"].shape == (7, 2, 1)
    assert entries["next", "adversary", "reward"].shape == (7, 2, 3, 1)
    assert made("tag_continuous").rollout(2)["next", "runner", "terminated"].shape == (7, 2, 3, 1)
    single = made("cartpole")
    assert single.group_map == {}
    assert single.rollout(2)["observation"].shape == (7, 2, 4)
    assert single.action_spec.shape == (7,)
    assert made(Spell).rollout(2)["outer", "observation"].keys() == {"picture", "number"}
    state = made(Revealed).rollout(3, break_when_any_done=False)["state"]
    assert state.shape[:2] == (7, 3)
    assert state[0, :, 0].tolist() == [0, 1, 2]  # the step counter


@pytest.mark.parametrize("name", [Fuse, Leave])
def test_rollouts_are_those_of_an_env_wrapper(name):
    env = made(name, seed=3)
    twin = made(name, seed=3).replicas
    with_active = "active" in twin.ctx
    env.set_seed(11)
    twin.reset(11)
    rollout = env.rollout(20, break_when_any_done=False)
    for row in rollout.unbind(1):
        chosen = torch.zeros_like(twin.ctx["actions"])
        for tag, ids in twin.policy_tags.items():
            assert torch.equal(row[tag, "observation"], twin.observations(tag))
            chosen[:, ids] = row[tag, "action"].int()
        twin._step(chosen, auto_reset=False)
        ended = [twin.ctx[flag][:, None].clone() for flag in ("terminated", "truncated")]
        done = ended[0] | ended[1]
        for flag, expected in zip(("terminated", "truncated", "done"), (*ended, done), strict=True):
            assert torch.equal(row["next", flag], expected)
        for tag, ids in twin.policy_tags.items():
            assert torch.equal(row["next", tag, "observation"], twin.observations(tag))
            assert torch.equal(row["next", tag, "reward"][..., 0], twin.ctx["rewards"][:, ids])
            assert (row[tag].get("done", None) is not None) == with_active
            if with_active:
                gone = ~twin.active(tag)
                assert torch.equal(row["next", tag, "mask"], ~gone)
                assert torch.equal(row["next", tag, "done"][..., 0], done | gone)
                assert torch.equal(row["next", tag, "terminated"][..., 0], ended[0] | gone)
                assert torch.equal(row["next", tag, "truncated"][..., 0], ended[1].expand_as(gone))
        twin.reset(where=done[:, 0])
    partial = {row.sum().item() for row in rollout["next", "done"].unbind(1)} - {0, 7}
    assert partial or with_active


def test_transforms_and_rollouts_until_all_are_done():
    from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv
    from torchrl.envs.utils import check_env_specs

    env = TransformedEnv(made("cartpole", 8, seed=1), Compose(RewardSum(), StepCounter()))
    check_env_specs(env)
    rollout = env.rollout(100, break_when_any_done=False)
    done = rollout["next", "done"]
    assert torch.equal(rollout["next", "episode_reward"].long(), rollout["next", "step_count"])
    for lengths, ends in zip(rollout["next", "step_count"][..., 0], done[..., 0], strict=True):
        starts = torch.cat([torch.tensor([-1]), ends.nonzero()[:, 0]])
        assert torch.equal(lengths[ends], starts.diff())
    env.set_seed(5)
    waiting = env.rollout(500, break_when_any_done=False, break_when_all_done=True)
    assert waiting["next", "done"][:, -1].all()  # replicas that ended remained as they were
    first = waiting["next", "done"][..., 0].int().argmax(dim=1)
    assert torch.equal(waiting["next", "step_count"][:, -1, 0], first + 1)
    assert len(set(first.tolist())) > 1
    env, half = made(Leave, 8), torch.arange(8) % 2

    def act(tensordict):  # half of the episodes end in step 5, the others in step 6
        return env.rand_action(tensordict).set(("outer", "action"), half[:, None, None].expand(8, 2, 2).clone())

    ends = env.rollout(9, act, break_when_any_done=False, break_when_all_done=True)["next", "done"].sum(dim=1)
    assert ends.flatten().tolist() == [2, 1] * 4  # those that ended earlier waited for a step
    leave = TransformedEnv(made(Leave, 8), RewardSum()).rollout(20, break_when_any_done=False)["next", "outer"]
    assert torch.equal(leave["episode_reward"][:, 4], leave["reward"][:, :5].sum(dim=1))


def test_partial_steps():
    env = made("cartpole", 4, seed=0)
    start = env.reset()
    moved = torch.tensor([True, False, True, False])
    after = env.step(env.rand_action(start.clone()).set("_step", moved[:, None]))["next"]
    assert torch.equal((after["observation"] != start["observation"]).any(dim=1), moved)
    assert after["reward"].flatten().tolist() == [1, 0, 1, 0]
    assert not after["done"].any()
    assert env.rand_step(env.step_mdp(env.rand_step(start)))["next", "reward"].sum() == 4  # all go on


def test_seeds():
    env = made("simple_tag")

    def rollout(seed):
        torch.manual_seed(0)
        env.set_seed(seed)
        return env.rollout(30, break_when_any_done=False)

    first, other, again = rollout(1), rollout(2), rollout(1)
    assert (first == again).all()
    assert not torch.equal(first["adversary", "observation"], other["adversary", "observation"])
    assert not (made("cartpole").reset() == made("cartpole").reset()).all()  # no seed


def test_random_actions_are_allowed_and_one_hot_actions_decoded():
    from torchrl.envs.utils import check_env_specs

    env = made(Leave, 6, group_map={"some": ["outer_0", "inner_0"], "rest": ["outer_1"]})
    rollout = env.rollout(30, break_when_any_done=False)
    for group in ("some", "rest"):
        masks, chosen = rollout[group, "action_mask"], rollout[group, "action"]
        allowed = [masks[..., :4].gather(-1, chosen[..., :1]), masks[..., 4:].gather(-1, chosen[..., 1:])]
        assert torch.stack(allowed).all()
    for categorical in (True, False):
        env = made(Leave, 6, categorical_actions=categorical, flatten_actions=True)
        check_env_specs(env)
        step = env.rand_step(env.reset())
        chosen = step["outer", "action"] if categorical else step["outer", "action"].argmax(dim=-1)
        assert torch.equal(env.replicas.actions("outer").long(), torch.stack([chosen // 2, chosen % 2], dim=-1))
        masks = step["outer", "action_mask"]
        assert masks.gather(-1, chosen.unsqueeze(-1)).all()
        one, other = env.replicas.action_mask("outer").split((4, 2), dim=-1)
        assert torch.equal(step["next", "outer", "action_mask"], (one[..., None] & other[..., None, :]).flatten(-2))
    env = made(Leave, 6, categorical_actions=False)
    step = env.rand_step(env.reset())
    for tag, ids in env.replicas.policy_tags.items():
        given = env.replicas.ctx["actions"][:, ids].long()
        parts = [torch.nn.functional.one_hot(given[..., i], n) for i, n in enumerate((4, 2))]
        assert torch.equal(step[tag, "action"], torch.cat(parts, dim=-1))


def test_steps_stay_on_the_device(monkeypatch):
    monkeypatch.setattr(actions, "_check_range", lambda tensor, array: None)  # reads values, on the CPU only
    env = made("tag_gridworld", 16, seed=0)
    entries = env.rand_step(env.reset())
    entries = env.step_mdp(entries).set("_reset", entries["next", "done"])
    env.reset(entries.clone())
    env.rand_action(entries)
    with wd.no_host_transfers():
        env._reset(entries)
        env._step(entries)


@pytest.mark.exhaustive
def test_ppo_with_a_policy_shared_by_the_agents_of_a_group():
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.envs import Compose, InitTracker, RewardSum, TransformedEnv
    from torchrl.modules import MultiAgentMLP, ProbabilisticActor
    from torchrl.objectives import ClipPPOLoss

    env = TransformedEnv(made("simple_spread", 16, seed=0), Compose(InitTracker(), RewardSum()))
    sizes = {"n_agents": 3, "share_params": True, "depth": 1, "num_cells": 16}
    logits = MultiAgentMLP(18, 5, centralized=False, **sizes)
    values = MultiAgentMLP(18, 1, centralized=True, **sizes)
    actor = ProbabilisticActor(
        TensorDictModule(logits, [("agent", "observation")], [("agent", "logits")]),
        spec=env.full_action_spec["agent", "action"],
        in_keys=[("agent", "logits")],
        out_keys=[env.action_key],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
        log_prob_key=("agent", "log_prob"),
    )
    critic = TensorDictModule(values, [("agent", "observation")], [("agent", "state_value")])
    loss = ClipPPOLoss(actor, critic)
    keys = {key: ("agent", key) for key in ("reward", "action", "done", "terminated")}
    loss.set_keys(value=("agent", "state_value"), sample_log_prob=("agent", "log_prob"), **keys)
    loss.make_value_estimator()
    before = [parameter.clone() for parameter in loss.parameters()]
    optimizer = torch.optim.Adam(loss.parameters())
    for batch in Collector(env, actor, frames_per_batch=16 * 30, total_frames=16 * 60):
        assert batch["next", "agent", "episode_reward"].shape == (16, 30, 3, 1)
        for key in ("done", "terminated"):
            flag = batch["next", key].unsqueeze(-1).expand(16, 30, 3, 1)
            batch.set(("next", "agent", key), flag)
        with torch.no_grad():
            loss.value_estimator(batch)
        losses = loss(batch.reshape(-1))
        sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
        optimizer.step()
    assert not any(torch.equal(old, new) for old, new in zip(before, loss.parameters(), strict=True))


def test_batches_of_environments_and_images():
    from torchrl.envs import SerialEnv
    from torchrl.envs.utils import check_env_specs

    env = SerialEnv(2, lambda: made("simple_tag", 3))
    rollout = env.rollout(20, break_when_any_done=False)
    assert rollout["next", "truncated"].sum(dim=(0, 1, 3)).nonzero().flatten().tolist() == [8, 17]
    images = made("cartpole", 2, from_pixels=True)
    check_env_specs(images)
    frames = images.reset()["pixels"]
    assert frames.shape == (2, *images.render(mode="rgb_array").shape)
    assert torch.equal(frames[1], torch.from_numpy(images.render(1)))


def test_wrappers_of_torchrl_accept_the_other_interfaces():
    from torchrl.envs import GymEnv, GymWrapper, PettingZooWrapper
    from torchrl.envs.utils import check_env_specs

    for env in (
        GymEnv("warpdrive/CartPole-v1"),
        GymWrapper(wd.to_gymnasium("cartpole", 3, env_backend="cpu")),
        PettingZooWrapper(
            wd.to_pettingzoo("tag_continuous", env_backend="cpu", env_config=SMALL["tag_continuous"]), use_mask=True
        ),
    ):
        check_env_specs(env)


def test_mistakes_are_named():
    with pytest.raises(DefinitionError, match=r"adversary_2 wasn't found in any group\. The agents are adversary_0"):
        made("simple_tag", group_map={"a": ["adversary_0", "adversary_1"], "b": ["good_agent_0"]})
    env = made("cartpole")
    assert env.to("cpu") is env
    with pytest.raises(DefinitionError, match="the replicas are on cpu, not on cuda"):
        env.to("cuda")
    with pytest.raises(KeyError, match="action"):
        env.step(env.reset())
