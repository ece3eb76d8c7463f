"""Explanations of the driver's error codes, with remedies."""

from __future__ import annotations

import os

VISIBLE = "CUDA_VISIBLE_DEVICES"

_FAULT = (
    "a kernel that was launched earlier {} and the GPU can no longer be used by this process: restart Python. "
    "`warpdrive check` finds accesses out of bounds; with CUDA_LAUNCH_BLOCKING=1 the error is raised by the "
    "PyTorch operation that caused it"
)
_UPDATE = "install a newer driver (nvidia.com/drivers)"

_EXPLANATIONS = {
    1: "the value is invalid",
    2: "the GPU's memory is full: use fewer replicas, or stop other programs that use it (nvidia-smi lists them)",
    3: (
        "the driver is not initialised in this process: a process forked from one that uses a GPU cannot use it; "
        "start processes with multiprocessing's 'spawn'"
    ),
    4: "the program is ending",
    34: "the library found is a stub for linking, not a driver: remove the CUDA toolkit's 'stubs' from LD_LIBRARY_PATH",
    46: "another process has exclusive use of the GPU (compute mode 'exclusive process', nvidia-smi -q -d COMPUTE)",
    100: "the driver sees no GPU",
    101: "there is no such GPU",
    200: "the compiled code is damaged",
    209: "the code was not compiled for this GPU: delete the cache of compiled kernels ($WARPDRIVE_CACHE_DIR)",
    214: "the GPU's memory has an uncorrectable error (nvidia-smi -q -d ECC): restart the machine",
    218: "the driver cannot compile the code",
    221: f"the driver's own compiler, libnvidia-ptxjitcompiler, was not found: {_UPDATE}",
    222: (
        f"the compiler is newer than the driver: {_UPDATE}, or an older compiler; `warpdrive doctor` says which fits"
    ),
    223: "JIT compilation by the driver is disabled (CUDA_DISABLE_PTX_JIT): pip install nvidia-nvjitlink",
    700: _FAULT.format("accessed memory out of bounds,"),
    701: "the kernel takes more registers or shared memory than the GPU has for so many threads in a block",
    702: "a kernel ran longer than this GPU's watchdog allows: restart Python, and use a GPU without a display",
    710: _FAULT.format("failed an assertion,"),
    714: _FAULT.format("overflowed its stack,"),
    715: _FAULT.format("executed an illegal instruction,"),
    716: _FAULT.format("accessed memory at a misaligned address,"),
    717: _FAULT.format("accessed memory in the wrong address space,"),
    718: _FAULT.format("jumped to an invalid address,"),
    719: _FAULT.format("failed,"),
    720: "the blocks of a kernel with barriers of the grid must all run at once: use fewer or smaller blocks",
    802: "the system is not ready: on machines with NVSwitch the service nvidia-fabricmanager must run",
    803: "the driver's library and its kernel module are of different versions: restart the machine after an update",
    804: "this GPU does not support the driver's forward compatibility package (cuda-compat): remove it, or " + _UPDATE,
    999: "the driver gives no details: restart the machine, or reload the module nvidia_uvm",
}


def explained(what: str, code: int, name: str, details: str = "") -> str:
    """Return the message of a driver error, with its cause and a remedy.

    Args:
        what: Description of the failure.
        code: The ``CUresult``.
        name: Name of the error.
        details: Cause of the failure, if known.

    Returns:
        The message.
    """
    cause = ": ".join(filter(None, [details, _EXPLANATIONS.get(code, "")]))
    hidden = os.environ.get(VISIBLE)
    if code in (100, 101) and hidden is not None:
        cause += f"; {VISIBLE} is '{hidden}', which hides others: unset it, or name those to use"
    return f"{what} ({name})" + (f": {cause}" if cause else "")
