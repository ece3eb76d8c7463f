"""What tests of several folders share."""

from __future__ import annotations

import os

import pytest

# As the command line does, for the tests and the processes that they start; read once, when PyTorch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def available_backends() -> list[str]:
    """Return the names of the backends that can run here."""
    return ["cpu"]


@pytest.fixture(params=available_backends())
def backend(request: pytest.FixtureRequest) -> str:
    """Give the name of each backend that can run here, one after the other."""
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what needs a GPU where there is none."""
    import torch  # after the environment is set, above

    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))
