"""Dtypes as text: what a generated module can hold, compare and hash, for structured dtypes too."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the text of a dtype: its name, or what NumPy takes for it; for a structured one where each field lies."""
    if dtype.fields is not None:
        return repr(_description(dtype))
    text: str = dtype.str if dtype.kind in "SU" else dtype.name
    return text


def dtype_of(text: str) -> np.dtype[Any]:
    """Return the dtype that :func:`dtype_text` gave a text for."""
    return np.dtype(ast.literal_eval(text) if text.startswith("{") else text)


def _description(dtype: np.dtype[Any]) -> Any:
    """Return what ``np.dtype`` makes the same dtype of; NumPy's own ``repr`` is not always that."""
    if dtype.subdtype is not None:
        return (_description(dtype.base), dtype.shape)
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
    return {
        "names": list(dtype.names),
        "formats": [_description(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }
