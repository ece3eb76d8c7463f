"""Default values of WarpDrive 2's run configurations."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "trainer": {
        "num_gpus": 1,
        "num_envs": 10,
        "num_episodes": 10000,
        "train_batch_size": 10000,
        "env_backend": "numba",
    },
    "policy": {
        "to_train": False,
        "algorithm": "A2C",
        "vf_loss_coeff": 0.01,
        "entropy_coeff": 0.05,
        "clip_grad_norm": True,
        "max_grad_norm": 0.5,
        "normalize_advantage": False,
        "normalize_return": False,
        "clip_param": 0.01,
        "gamma": 0.98,
        "tau": 0.05,
        "lr": 0.0001,
        "model": {"type": "fully_connected", "fc_dims": [64, 64], "model_ckpt_filepath": ""},
    },
    "saving": {
        "metrics_log_freq": 100,
        "model_params_save_freq": 1000,
        "basedir": "/tmp",
        "name": "default",
        "tag": "experiment",
    },
}
"""Values of keys that a run configuration leaves out."""
