"""What ``warpdrive doctor`` tells: what is on this machine, what each backend lacks, and what ``"auto"`` is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from warpdrive.backends.machine import Machine
from warpdrive.backends.requirements import BACKENDS, Lack, chosen, lacks
from warpdrive.errors import BackendError


def diagnosis(machine: Machine) -> dict[str, Any]:
    """Return all that is known of a machine, and what follows from it, in what JSON can hold. Never raises.

    ``backends`` has for each whether it is ``usable``, and what it ``lacks``: a list of what was found and what would
    help. ``auto`` is the backend that ``env_backend="auto"`` stands for.
    """
    found = asdict(machine)
    missing = {backend: lacks(backend, machine) for backend in BACKENDS}
    if not missing["numba"] and (failure := _failure_of_use()):
        missing["numba"].append(Lack(failure))
        missing["pycuda"].append(Lack(failure))
    return {
        **found,
        "backends": {name: {"usable": not each, "lacks": list(map(str, each))} for name, each in missing.items()},
        "auto": chosen(machine)[0] if not missing["numba"] else "cpu",
        "cuda_on_host": machine.cxx_compiler is not None,
    }


def _failure_of_use() -> str:
    """Return why the first GPU cannot be used though nothing is missing, such as memory that is full, or ``""``."""
    from warpdrive.backends.cuda.device import device_at

    try:
        device_at(0)
    except BackendError as error:
        return str(error)
    except Exception as error:  # whatever a broken installation raises
        return f"GPU 0 cannot be used: {type(error).__name__}: {error}"
    return ""
