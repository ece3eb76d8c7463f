"""CUDA C constructs that are rejected, because their meaning changes if replicas share blocks and warps."""

from __future__ import annotations

import re
from collections.abc import Collection

from warpdrive.errors import nearest
from warpdrive.kernels.cuda_signature import without_comments
from warpdrive.kernels.errors import KernelError

_WARPS = "works on warps, which a replica may share with others, or have several of: use WD_SHARED and wd_barrier()"
_REFUSED = {
    r"extern\s+__shared__": "has no known size: WD_SHARED(type, name, size) declares shared memory",
    r"__(?:shfl|ballot|any|all|match|reduce)\w*_sync|__(?:activemask|syncwarp)|warpSize": _WARPS,
    r"cooperative_groups": "works on blocks, which a replica may share with others: use wd_barrier()",
    r"gridDim": "is not available: the number of replicas is a parameter, int num_envs",
}


def check_text(text: str, file: str, arrays: Collection[str]) -> None:
    """Check the text of an author's file, whose kernel functions have the array parameters ``arrays``.

    Args:
        text: Text of the file.
        file: Path of the file.
        arrays: Names of the array parameters.

    Raises:
        KernelError: If a construct is rejected, or ``wd_index`` or ``wd_extent`` is applied to something other than an
            array parameter; the message has the file and line.
    """
    plain = without_comments(text)
    for pattern, reason in _REFUSED.items():
        found = re.search(rf"\b(?:{pattern})\b", plain)
        if found:
            raise KernelError(f"{_where(plain, found, file)}: '{found[0]}' {reason}")
    for found in re.finditer(r"\b(wd_index|wd_extent)\s*\(\s*(\w+)\s*,", plain):
        is_in_a_macro = re.search(r"^\s*#\s*define\b.*$", plain[: found.start()].rpartition("\n")[2])
        if found[2] not in arrays and not is_in_a_macro:
            raise KernelError(
                f"{_where(plain, found, file)}: {found[1]}({found[2]}, ...) takes the name of an array parameter of "
                f"the kernel function, and '{found[2]}' is not one.{nearest(found[2], arrays)}"
            )


def _where(plain: str, found: re.Match[str], file: str) -> str:
    return f"{file}:{plain.count(chr(10), 0, found.start()) + 1}"
