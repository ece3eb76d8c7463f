"""Explanations of the driver's error codes, with remedies."""

from __future__ import annotations

import os

VISIBLE = "CUDA_VISIBLE_DEVICES"

_FAULT = (
    "a kernel that was launched earlier {} and the GPU can no longer be used by this process: start Python anew. "
    "`warpdrive check` finds where kernels leave their arrays; with CUDA_LAUNCH_BLOCKING=1 the error comes at the "
    "PyTorch operation that caused it"
)
_UPDATE = "install a newer driver (nvidia.com/drivers)"

_EXPLANATIONS = {
    1: "the driver takes no such value",
    2: "the GPU's memory is full: use fewer replicas, or end what else uses it (nvidia-smi lists it)",
    3: (
        "the driver was not started in this process: a process that was forked from one that uses a GPU cannot use it "
        "itself; start processes with multiprocessing's 'spawn'"
    ),
    4: "the program is ending",
    34: "the library found is a stub for linking, not a driver: take the CUDA toolkit's 'stubs' out of LD_LIBRARY_PATH",
    46: "another process uses the GPU for itself alone (compute mode 'exclusive process', nvidia-smi -q -d COMPUTE)",
    100: "the driver sees no GPU",
    101: "there is no such GPU",
    200: "the code that was compiled is damaged",
    209: "the code was not compiled for this GPU: delete the cache of compiled kernels ($WARPDRIVE_CACHE_DIR)",
    214: "the GPU's memory has an error that cannot be corrected (nvidia-smi -q -d ECC): restart the machine",
    218: "the driver cannot compile the code",
    221: f"the driver's own compiler, libnvidia-ptxjitcompiler, was not found: {_UPDATE}",
    222: (
        f"the compiler is newer than the driver: {_UPDATE}, or an older compiler; `warpdrive doctor` says which fits"
    ),
    223: "compiling by the driver is switched off (CUDA_DISABLE_PTX_JIT): pip install nvidia-nvjitlink",
    700: _FAULT.format("accessed memory that is not its own,"),
    701: "the kernel takes more registers or shared memory than the GPU has for so many threads in a block",
    702: "a kernel ran longer than this GPU's watchdog allows: start Python anew, and use a GPU without a display",
    710: _FAULT.format("failed an assertion,"),
    714: _FAULT.format("ran out of stack,"),
    715: _FAULT.format("came to an instruction that does not exist,"),
    716: _FAULT.format("accessed memory at an address that is no multiple of the size it reads,"),
    717: _FAULT.format("accessed memory of the wrong kind,"),
    718: _FAULT.format("jumped to where no code is,"),
    719: _FAULT.format("failed,"),
    802: "the system is not ready: on machines with NVSwitch the service nvidia-fabricmanager must run",
    803: "the driver's library and its kernel module are of different versions: restart the machine after an update",
    804: "this GPU does not support the driver's forward compatibility package (cuda-compat): remove it, or " + _UPDATE,
    999: "the driver says no more: restart the machine, or reload the module nvidia_uvm",
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
