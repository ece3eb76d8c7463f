"""Serialisation of dtypes, structured ones included, to text that generated modules can hold, compare and hash."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the text of a dtype: its name or type string, or a field description if it is structured."""
    if dtype.fields is not None:
        return repr(_description(dtype))
    text: str = dtype.str if dtype.kind in "SU" else dtype.name
    return text


def dtype_of(text: str) -> np.dtype[Any]:
    """Return the dtype for a text returned by :func:`dtype_text`."""
    return np.dtype(ast.literal_eval(text) if text.startswith("{") else text)


def _description(dtype: np.dtype[Any]) -> Any:
    """Return a description from which ``np.dtype`` rebuilds the dtype; NumPy's ``repr`` does not always qualify."""
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
