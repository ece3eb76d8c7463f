"""Report of ``warpdrive doctor``: the machine, missing requirements of backends, and the choice of ``"auto"``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from warpdrive.backends.diagnostics import Lack
from warpdrive.backends.loading import TABLE, chosen, lacks
from warpdrive.backends.system_info import Machine
from warpdrive.errors import BackendError


def diagnosis(machine: Machine) -> dict[str, Any]:
    """Return a JSON-serializable report about a machine. Never raises.

    ``backends`` maps each backend to ``usable`` and ``lacks``, a list of findings and suggested remedies. ``auto`` is
    the backend selected by ``env_backend="auto"``.
    """
    found = asdict(machine)
    missing = {backend: lacks(backend, machine) for backend in TABLE}
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
    """Return the reason why the first GPU cannot be used although all requirements are met, such as full memory."""
    from warpdrive.backends.cuda.device import device_at

    try:
        device_at(0)
    except BackendError as error:
        return str(error)
    except Exception as error:  # whatever a broken installation raises
        return f"GPU 0 cannot be used: {type(error).__name__}: {error}"
    return ""
