"""What tests of several folders share."""

from __future__ import annotations

import pytest


def available_backends() -> list[str]:
    """Return the names of the backends that can run here."""
    return ["cpu"]


@pytest.fixture(params=available_backends())
def backend(request: pytest.FixtureRequest) -> str:
    """Give the name of each backend that can run here, one after the other."""
    return str(request.param)
