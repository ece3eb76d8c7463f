"""Options of models: the sections ``model`` of a run configuration, passed to the models as one object."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator

from warpdrive.training.config.section import Section
from warpdrive.training.config.values import Width, Widths

Initialization = Literal["orthogonal", "xavier", "uniform"]
Trunk = Literal["separate", "shared"]
Activation = Literal["tanh", "relu", "elu", "silu"]


class PerceptronConfig(Section):
    """Multi-layer perceptron."""

    type: Literal["fully_connected"] = "fully_connected"
    hidden: list[Width] = [64, 64]
    """Widths of the hidden layers; ``[]`` for none."""
    activation: Activation = "tanh"
    """Activation function of the hidden layers."""
    scale_observations: bool = False
    """If True, bounded elements of observations are scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """If True, observations are standardised by their running mean and variance over all rollouts so far."""
    initialization: Initialization = "orthogonal"
    """Initialisation of the weights.

    ``orthogonal`` or ``xavier``: with gain sqrt(2) in hidden layers, 1 in the last layer of a value function and 0.01
    in the last layer of a policy; ``uniform``: the default of ``torch.nn.Linear``. Biases are 0, except those of
    linear layers with ``uniform``.
    """
    layer_norm: bool = False
    """If True, layer normalisation precedes each activation in perceptrons (Ba et al. 2016, arXiv:1607.06450)."""


class ActionsConfig(Section):
    """Interpretation of a model's outputs for actions in a Box."""

    normalize_actions: bool = True
    """If True, means and standard deviations are in units of half the range of the Box, relative to its centre."""
    squash_actions: bool = False
    """If True, samples are squashed to the Box by tanh instead of clipped."""


class GaussianConfig(ActionsConfig):
    """Standard deviations of actions in a Box."""

    initial_log_std: Annotated[float, Field(ge=-20.0, le=2.0)] = 0.0
    """Initial logarithm of the standard deviations."""
    state_dependent_std: bool = False
    """If True, standard deviations are outputs of the network; else they are state-independent parameters."""


class FullyConnectedConfig(PerceptronConfig, GaussianConfig):
    """Multi-layer perceptrons for the policy and the value function."""

    trunk: Trunk = "separate"
    """``separate``: policy and value function have separate hidden layers; ``shared``: only separate last layers."""


class ConvolutionsConfig(PerceptronConfig):
    """Stack of convolutions followed by a multi-layer perceptron."""

    type: Literal["convolutional"] = "convolutional"  # type: ignore[assignment]
    hidden: list[Width] = [64]
    """Widths of the perceptron's hidden layers, after the convolutions."""
    activation: Activation = "relu"
    """Activation function of the convolutions and the hidden layers."""
    filters: list[Width] = [16, 32]
    """Number of output channels of each convolution."""
    kernel_size: Widths = 3
    """Height and width of the convolution kernels, one for all or one per convolution."""
    stride: Widths = 2
    """Stride in both directions, one for all or one per convolution."""
    padding: bool = True
    """If True, inputs of convolutions are zero-padded by half the kernel size."""

    @field_validator("kernel_size", "stride")
    @classmethod
    def _has_a_number_for_each(cls, given: int | list[int], others: ValidationInfo) -> int | list[int]:
        filters = others.data.get("filters", given)
        if isinstance(given, list) and len(given) != len(filters):
            raise ValueError(f"one number, or one for each of the {len(filters)} filters")
        return given


class ConvolutionalConfig(ConvolutionsConfig, GaussianConfig):
    """Convolutional networks for the policy and the value function."""

    trunk: Trunk = "separate"
    """``separate``: policy and value function have separate layers; ``shared``: only separate last layers."""


class UnitsConfig(PerceptronConfig):
    """Multi-layer perceptron followed by recurrent units."""

    type: Literal["gru", "lstm", "mingru"]  # type: ignore[assignment]
    hidden: list[Width] = [64]
    """Widths of the perceptron's layers."""
    units: Width = 64
    """Number of recurrent units."""


class RecurrentConfig(UnitsConfig, GaussianConfig):
    """Recurrent policy and value function."""

    trunk: Trunk = "shared"
    """``separate``: policy and value function have separate layers and units; ``shared``: only separate last layers."""


class GRUConfig(RecurrentConfig):
    """Gated recurrent units."""

    type: Literal["gru"] = "gru"  # type: ignore[assignment]


class LSTMConfig(RecurrentConfig):
    """Long short-term memory."""

    type: Literal["lstm"] = "lstm"  # type: ignore[assignment]


class MinGRUConfig(RecurrentConfig):
    """Minimal gated recurrent units, whose gates do not depend on the state."""

    type: Literal["mingru"] = "mingru"  # type: ignore[assignment]


class CustomModelConfig(ActionsConfig):
    """User-defined model; additional keys are parameters of its constructor."""

    model_config = ConfigDict(extra="allow")

    type: str
    """Name registered with ``wd.register_model``, ``package.module:Class`` or ``path/to/file.py:Class``."""
    check_device: bool = False
    """If True, devices, dtypes and shapes are checked in every call, see ``wd.CheckDevice``."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword arguments of the constructor besides the observation space and the number of logits."""
        return dict(self.model_extra or {})


ACTION_VALUE_CONFIGS: dict[str, type[Section]] = {
    "fully_connected": PerceptronConfig,
    "convolutional": ConvolutionsConfig,
}
"""Sections of the models of action values and deterministic policies, by ``type``."""

TEAM_VALUE_CONFIGS: dict[str, type[Section]] = {
    **ACTION_VALUE_CONFIGS,
    **dict.fromkeys(("gru", "lstm", "mingru"), UnitsConfig),
}
"""Sections of the models of value decomposition, by ``type``."""

MODEL_CONFIGS: dict[str, type[Section]] = {
    "fully_connected": FullyConnectedConfig,
    "convolutional": ConvolutionalConfig,
    "gru": GRUConfig,
    "lstm": LSTMConfig,
    "mingru": MinGRUConfig,
}


def _model_type(value: Any) -> str:
    """Return the discriminator of a model section: ``fully_connected`` by default, ``custom`` for unknown types."""
    given = value.get("type", "fully_connected") if isinstance(value, dict) else getattr(value, "type", value)
    return given if isinstance(given, str) and given in MODEL_CONFIGS else "custom"


ModelConfig = Annotated[
    Annotated[FullyConnectedConfig, Tag("fully_connected")]
    | Annotated[ConvolutionalConfig, Tag("convolutional")]
    | Annotated[GRUConfig, Tag("gru")]
    | Annotated[LSTMConfig, Tag("lstm")]
    | Annotated[MinGRUConfig, Tag("mingru")]
    | Annotated[CustomModelConfig, Tag("custom")],
    Discriminator(_model_type),
]


def _off_policy_model_type(value: Any) -> str:
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "convolutional" if given == "convolutional" else "fully_connected"


OffPolicyModelConfig = Annotated[
    Annotated[PerceptronConfig, Tag("fully_connected")] | Annotated[ConvolutionsConfig, Tag("convolutional")],
    Discriminator(_off_policy_model_type),
]


def _team_model_type(value: Any) -> str:
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return given if isinstance(given, str) and given in TEAM_VALUE_CONFIGS else "fully_connected"


TeamModelConfig = Annotated[
    Annotated[PerceptronConfig, Tag("fully_connected")]
    | Annotated[ConvolutionsConfig, Tag("convolutional")]
    | Annotated[UnitsConfig, Tag("gru")]
    | Annotated[UnitsConfig, Tag("lstm")]
    | Annotated[UnitsConfig, Tag("mingru")],
    Discriminator(_team_model_type),
]
