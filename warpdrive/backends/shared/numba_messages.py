"""Translation of numba's typing errors into messages with the author's own expressions and dtypes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

_OPERATORS = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"},
    **{"and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "neg": "-", "invert": "~"},
    **{"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="},
}
_OF_INTEGERS = ("and_", "or_", "xor", "lshift", "rshift", "invert", "iand", "ior", "ixor", "ilshift", "irshift")


def missing_field(name: object, statements: Iterable[ast.AST]) -> tuple[ast.AST, str] | None:
    """Return the access to a missing record field and the message for it; None if there is no such access."""
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Attribute) and node.attr == name:
            return node, f"'{ast.unparse(node.value)}' is a record without a field '{name}'"
    return None


def in_words(sentence: str, statements: Iterable[ast.AST]) -> str | None:
    """Return the translation of a sentence of numba's, or None if it is not known.

    Args:
        sentence: First sentence of numba's message.
        statements: Syntax trees of the author's line that it refers to.
    """
    nodes = [node for statement in statements for node in ast.walk(statement)]
    for pattern, translate in _TRANSLATIONS:
        match = re.search(pattern, sentence)
        if match:
            return translate(list(match.groups()), nodes)
    return None


def _no_implementation(found: Sequence[str], nodes: Sequence[ast.AST]) -> str | None:
    function, given = found[0], _split(found[1])
    if function in ("getitem", "static_getitem", "setitem", "static_setitem") and len(given) >= 2:
        return _index(given, nodes)
    if function == "bool" and _is_array(given[0]):
        return f"a condition must be one number, and this is {_words(given[0])}: give every axis an index"
    operation = function if function in _OPERATORS else function[1:]  # iadd is +=
    if operation in _OPERATORS:
        sign = _OPERATORS[operation] + ("=" if operation != function else "")
        message = f"{sign} does not work on {' and '.join(map(_words, given))}"
        if function in _OF_INTEGERS and any(kind.startswith("float") for kind in given):
            return f"{message}: only on integers, so convert with int(...) first"
        return f"{message}: give every axis an index" if any(map(_is_array, given)) else message
    if function == "<unknown function>":
        function = next((ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)), function)
    return f"{function}(...) does not work on {', '.join(map(_words, given)) or 'nothing'} in a kernel"


def _index(given: Sequence[str], nodes: Sequence[ast.AST]) -> str:
    """Return the message for a failed indexing; ``given`` are the types of array, index and any stored value."""
    array, indices, value = given[0], _split(given[1]), given[2] if len(given) > 2 else None
    changed = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}  # read as well as written
    places = [
        node
        for node in nodes
        if isinstance(node, ast.Subscript)
        and (id(node) in changed or isinstance(node.ctx, ast.Store) == (value is not None))
        and _fits(node, indices)
    ]
    is_float = [kind.startswith(("float", "complex")) for kind in indices]
    if any(is_float):  # rarely a loop variable
        computed = [p for p in places if not isinstance(_indices_of(p)[is_float.index(True)], ast.Name)]
        places = computed or places
    where = " or ".join(f"'{ast.unparse(place)}'" for place in places) or "an element"
    name = " or ".join(dict.fromkeys(f"'{ast.unparse(place.value)}'" for place in places)) or "the array"
    if _words(array) == "a tuple" and value is not None:
        return f"{where}: a tuple cannot be changed: use cuda.local.array"
    if _words(array) == "a tuple" and not any(is_float):
        return f"{where}: the index of a tuple with elements of several types must be a literal"
    if not _is_array(array) and _words(array) != "a tuple":
        return f"{where}: {_words(array)} has no elements"
    if _is_array(array) and len(indices) > _rank(array):
        return f"{where}: {name} is {_words(array)}, found {len(indices)} indices"
    if any(is_float):
        return f"{where}: {_float_index_message(places, is_float.index(True), indices)}"
    if any(kind.startswith("Literal[str]") for kind in indices):
        fields = re.findall(r"(\w+)\[type=", array)
        known = f", only {', '.join(fields)}" if fields else f": {name} is {_words(array)}"
        return f"{where}: there is no such field{known}"
    if array.startswith("readonly"):
        return f"{where}: {name} is a read-only array, and a kernel cannot write it"
    if value is not None and _is_array(value):
        assigned = (ast.unparse(n.value) for n in nodes if isinstance(n, (ast.Assign, ast.AugAssign)))
        row = next((f"'{text}'" for text in assigned), "what is written")
        return f"{row} is {_words(value)}, which {where} cannot hold: give every axis an index"
    if value is not None:
        return f"{where}: {name} is {_words(array)}, which cannot hold {_words(value)}"
    return f"{where}: {name} is {_words(array)}, which cannot be indexed by {' and '.join(map(_words, indices))}"


def _float_index_message(places: Sequence[ast.Subscript], axis: int, indices: Sequence[str]) -> str:
    """Return the fault for an index that is a float."""
    kind = indices[axis]
    index = _indices_of(places[0])[axis] if len(places) == 1 else None
    if index is None:
        return f"an index is {kind}, and must be an integer: write int(...)"
    fault = f"the index '{ast.unparse(index)}' is {kind}"
    if not isinstance(index, ast.Subscript):
        return f"{fault}; an index is an integer: write int(...)"
    array = ast.unparse(index.value)
    return (
        f"{fault}, as '{array}' is an array of {kind}; an index is an integer: give '{array}' a dtype of integers, or "
        "write int(...)"
    )


def _unknown_attribute(found: Sequence[str], nodes: Sequence[ast.AST]) -> str:
    name, kind = found
    owner = next((ast.unparse(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr == name), "this")
    hint = ": convert with np.int32(...), np.float32(...) and the like" if name == "astype" else ""
    return f"'{owner}' is {_words(kind)}, which has no '{name}' in a kernel{hint}"


def _cannot_unify(found: Sequence[str], nodes: Sequence[ast.AST]) -> str:
    first, second, name = found
    what = "the expression" if name.startswith("$") else f"the variable '{name}'"
    return f"{what} is {_words(first)} in one case and {_words(second)} in another: it needs one type"


def _not_iterated(found: Sequence[str], nodes: Sequence[ast.AST]) -> str:
    hint = ": its elements need one type, and there must be some" if found[0].startswith("Tuple(") else ""
    return f"a loop cannot iterate over {_words(found[0])}{hint}"


def _not_called(found: Sequence[str], nodes: Sequence[ast.AST]) -> str:
    called = next((ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)), "this")
    hint = ": write an index in brackets, [...]" if _is_array(found[0]) else ""
    return f"'{called}' is {_words(found[0])}, which cannot be called{hint}"


_TRANSLATIONS = (
    (r"No implementation of function Function\(.*\) found for signature: ([\w<> ]+)\((.*)\)$", _no_implementation),
    (r"Unknown attribute '(\w+)' of type (.*)$", _unknown_attribute),
    (r"Cannot unify (.*) and (.*) for '(\S+?)'", _cannot_unify),
    (r"Invalid use of getiter with parameters \((.*)\)$", _not_iterated),
    (r"Invalid use of (.*) with parameters \(.*\)$", _not_called),
    (
        r"^unsupported type for input operand: (float16)$",
        lambda found, nodes: f"NumPy's functions do not work on {found[0]}: use that of math, or np.float32(...)",
    ),
    (
        r"wrong tuple length for .*expected (\d+), got (\d+)",
        lambda found, nodes: f"a tuple of {found[1]} elements is assigned to {found[0]} variables",
    ),
    (r"^failed to unpack (.*)$", lambda found, nodes: f"{_words(found[0])} cannot be unpacked"),
    (
        r"Untyped global name '(\w+)'",
        lambda found, nodes: f"'{found[0]}' requires the Python interpreter, which compiled kernels do not have",
    ),
)


def _split(kinds: str) -> list[str]:
    """Return the types in a comma-separated list, or in a tuple type."""
    parts = _parts(kinds)
    uniform = re.fullmatch(r"UniTuple\((.*) x (\d+)\)", kinds)
    if len(parts) == 1 and uniform:
        return [uniform[1]] * int(uniform[2])
    whole = re.fullmatch(r"Tuple\((.*)\)", kinds)
    return _parts(whole[1]) if len(parts) == 1 and whole else parts


def _parts(kinds: str) -> list[str]:
    depth, parts = 0, [""]
    for letter in kinds:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _words(kind: str) -> str:
    """Return a readable description of a numba type."""
    array = re.search(r"array\((.*), (\d+)d, \w+\)$", kind)
    if array:
        element = "records" if array[1].startswith("Record") else array[1]
        return f"an array of {element} with {array[2]} ax{'i' if array[2] == '1' else 'e'}s"
    literal = re.match(r"Literal\[(\w+)\]\((.*)\)$", kind)
    if literal:
        return f"the string '{literal[2]}'" if literal[1] == "str" else literal[2]
    for beginning, word in (
        ("Record", "a record"),
        ("UniTuple", "a tuple"),
        ("Tuple", "a tuple"),
        ("[unichr", "a string"),
    ):
        if kind.startswith(beginning):
            return word
    return {"none": "None", "unicode_type": "a string"}.get(kind, kind)


def _is_array(kind: str) -> bool:
    return re.search(r"(^|\s)array\(", kind) is not None


def _rank(array: str) -> int:
    (rank,) = re.findall(r", (\d+)d, \w+\)$", array)
    return int(rank)


def _indices_of(place: ast.Subscript) -> list[ast.expr]:
    return place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]


def _fits(place: ast.Subscript, kinds: Sequence[str]) -> bool:
    """Return True if the indices of an expression may have these types; only literals can contradict them."""
    indices = _indices_of(place)
    if len(indices) != len(kinds):
        return isinstance(place.slice, ast.Name)  # the name may refer to a tuple
    return all(_may_be(index, kind) for index, kind in zip(indices, kinds, strict=True))


def _may_be(index: ast.expr, kind: str) -> bool:
    if isinstance(index, ast.Constant) and isinstance(index.value, (int, str)):
        return kind in (f"Literal[{type(index.value).__name__}]({index.value})", "int64")
    return True
