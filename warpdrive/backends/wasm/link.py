"""Linking of one WebAssembly object file into a module, without a linker.

LLVM emits relocatable objects: memory, stack pointer and addresses of constants are imports and placeholders. A module
defines them. There is one object, all functions are in it, and their numbers stay the same: linking is to lay out
memory, patch the addresses, and define the imports.

Memory begins with the stack, which grows downwards, so that an overflow is a trap instead of a silent change of
constants; these follow, and then the memory of the host.

Formats: WebAssembly Core Specification, "Binary Format"; WebAssembly tool conventions, "Linking".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

STACK_BYTES = 1 << 20
"""Size of the stack, on which variables and arrays in shared memory lie."""
PAGE = 1 << 16
"""Bytes of a page of memory."""

_HEADER = b"\0asm\x01\0\0\0"
_CUSTOM, _TYPE, _IMPORT, _FUNCTION, _MEMORY, _GLOBAL, _EXPORT, _CODE, _DATA = 0, 1, 2, 3, 5, 6, 7, 10, 11
_KIND_FUNCTION, _KIND_TABLE, _KIND_MEMORY, _KIND_GLOBAL = 0, 1, 2, 3
_SEGMENT_INFO, _SYMBOL_TABLE = 5, 8
_SYMBOL_FUNCTION, _SYMBOL_DATA, _SYMBOL_SECTION = 0, 1, 3
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
_FUNCTION_INDEX, _MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32, _TYPE_INDEX, _GLOBAL_INDEX = 0, 3, 4, 5, 6, 7
_UNCHANGED = (_FUNCTION_INDEX, _TYPE_INDEX, _GLOBAL_INDEX)
_WITH_ADDEND = (_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32)
_I32, _MUTABLE, _I32_CONST, _END = 0x7F, 1, 0x41, 0x0B


@dataclass(frozen=True)
class Linked:
    """Module that needs no imports.

    Attributes:
        module: The WebAssembly module. It exports its functions, and the memory as ``memory``.
        first_free: Address from which the memory is the host's.
    """

    module: bytes
    first_free: int


class UndefinedSymbolsError(Exception):
    """Functions that the object calls and does not have: their names are the arguments."""


@dataclass
class _Segment:
    alignment: int
    content: bytearray
    address: int = 0


@dataclass(frozen=True)
class _Symbol:
    kind: int
    name: str
    index: int = -1  # of the function, or of the segment of data
    offset: int = 0
    is_defined: bool = True


class _Reader:
    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content, self.at = content, at

    def byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def signed(self) -> int:
        begin = self.at
        value = self.number()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if self.content[self.at - 1] & 0x40 else value

    def take(self, count: int) -> bytes:
        self.at += count
        return self.content[self.at - count : self.at]

    def name(self) -> str:
        return self.take(self.number()).decode()

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.content)


def link(content: bytes, exports: Sequence[str]) -> Linked:
    """Link an object file.

    Args:
        content: The object file.
        exports: Names of the functions to export.

    Returns:
        The module.

    Raises:
        UndefinedSymbolsError: If functions are missing.
    """
    sections, customs = _sections(content)
    undefined = [name for kind, name in _imports(sections.get(_IMPORT, b"\0")) if kind == _KIND_FUNCTION]
    if undefined:
        raise UndefinedSymbolsError(*undefined)
    alignments, symbols = _linking(customs["linking"])
    segments = [_Segment(*pair) for pair in zip(alignments, _segments(sections.get(_DATA, b"\0")), strict=True)]
    end = STACK_BYTES
    for segment in segments:
        segment.address = _aligned(end, segment.alignment)
        end = segment.address + len(segment.content)
    first_free = _aligned(end, 64)
    code, data = bytearray(sections[_CODE]), bytearray(sections.get(_DATA, b"\0"))
    _relocate(code, customs.get("reloc.CODE"), symbols, segments)
    _relocate(data, customs.get("reloc.DATA"), symbols, segments)
    for segment, patched in zip(segments, _segments(bytes(data)), strict=True):
        segment.content = patched
    functions = {symbol.name: symbol.index for symbol in symbols if symbol.kind == _SYMBOL_FUNCTION}
    exported = [_named("memory", _KIND_MEMORY, 0)]
    exported += [_named(name, _KIND_FUNCTION, functions[name]) for name in exports]
    pages = -(-first_free // PAGE)
    stack_pointer = bytes([_I32, _MUTABLE, _I32_CONST, *_signed(STACK_BYTES), _END])
    own = {
        _MEMORY: b"\x01\0" + _number(pages),
        _GLOBAL: b"\x01" + stack_pointer,
        _EXPORT: _number(len(exported)) + b"".join(exported),
        _CODE: bytes(code),
        _DATA: _number(len(segments)) + b"".join(map(_segment, segments)),
    }
    kept = {kind: sections[kind] for kind in (_TYPE, _FUNCTION)} | own
    parts = [bytes([kind]) + _number(len(part)) + part for kind, part in sorted(kept.items())]
    return Linked(_HEADER + b"".join(parts), first_free)


def _sections(content: bytes) -> tuple[dict[int, bytes], dict[str, bytes]]:
    """Return the contents of the sections by kind, and those of custom sections by name."""
    reader = _Reader(content, len(_HEADER))
    sections: dict[int, bytes] = {}
    customs: dict[str, bytes] = {}
    while not reader.is_at_end:
        kind = reader.byte()
        part = reader.take(reader.number())
        if kind == _CUSTOM:
            inner = _Reader(part)
            name = inner.name()
            customs[name] = part[inner.at :]
        else:
            sections[kind] = part
    return sections, customs


def _imports(content: bytes) -> Iterator[tuple[int, str]]:
    """Yield the kind and the name of each import."""
    reader = _Reader(content)
    for _ in range(reader.number()):
        reader.name()
        name, kind = reader.name(), reader.byte()
        if kind == _KIND_FUNCTION:
            reader.number()
        elif kind == _KIND_GLOBAL:
            reader.take(2)
            if name != "__stack_pointer":
                raise UndefinedSymbolsError(name)
        else:  # a table or a memory: limits
            if kind == _KIND_TABLE:
                reader.byte()
            flags = reader.byte()
            reader.number()
            if flags & 1:
                reader.number()
        yield kind, name


def _linking(content: bytes) -> tuple[list[int], list[_Symbol]]:
    """Return the alignments of the segments, and the symbols."""
    reader = _Reader(content)
    reader.number()  # the version
    alignments: list[int] = []
    symbols: list[_Symbol] = []
    while not reader.is_at_end:
        kind = reader.byte()
        part = _Reader(reader.take(reader.number()))
        if kind == _SEGMENT_INFO:
            for _ in range(part.number()):
                part.name()
                alignments.append(1 << part.number())
                part.number()
        elif kind == _SYMBOL_TABLE:
            symbols = [_symbol(part) for _ in range(part.number())]
    return alignments, symbols


def _symbol(reader: _Reader) -> _Symbol:
    kind, flags = reader.byte(), reader.number()
    is_defined = not flags & _UNDEFINED
    if kind == _SYMBOL_DATA:
        name = reader.name()
        if not is_defined:
            raise UndefinedSymbolsError(name)
        index, offset = reader.number(), reader.number()
        reader.number()  # the size
        return _Symbol(kind, name, index, offset)
    index = reader.number()
    has_name = kind != _SYMBOL_SECTION and (is_defined or flags & _EXPLICIT_NAME)
    return _Symbol(kind, reader.name() if has_name else "", index, is_defined=is_defined)


def _segments(content: bytes) -> list[bytearray]:
    reader = _Reader(content)
    found = []
    for _ in range(reader.number()):
        reader.number()  # active, in memory 0, at an address to be patched
        reader.byte()
        reader.signed()
        reader.byte()
        found.append(bytearray(reader.take(reader.number())))
    return found


def _relocate(
    code: bytearray, relocations: bytes | None, symbols: Sequence[_Symbol], segments: Sequence[_Segment]
) -> None:
    """Patch the addresses in the content of a section."""
    if relocations is None:
        return
    reader = _Reader(relocations)
    reader.number()  # the section
    for _ in range(reader.number()):
        kind, at, index = reader.byte(), reader.number(), reader.number()
        if kind in _UNCHANGED:
            continue
        if kind not in _WITH_ADDEND:
            raise UndefinedSymbolsError(f"relocation {kind}")  # addresses of functions: nothing here calls through one
        symbol = symbols[index]
        address = segments[symbol.index].address + symbol.offset + reader.signed()
        if kind == _MEMORY_I32:
            code[at : at + 4] = address.to_bytes(4, "little")
        else:
            code[at : at + 5] = _padded(address)


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _number(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _signed(value: int) -> bytes:
    """Return a positive number in the format of signed ones."""
    found = _number(value)
    return found if not found[-1] & 0x40 else bytes([*found[:-1], found[-1] | 0x80, 0])


def _padded(value: int) -> bytes:
    """Return a number below 2**31 in five bytes, the same in the formats of signed and unsigned numbers."""
    return bytes([value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)] + [value >> 28])


def _named(name: str, kind: int, index: int) -> bytes:
    return _number(len(name.encode())) + name.encode() + bytes([kind]) + _number(index)


def _segment(segment: _Segment) -> bytes:
    place = bytes([0, _I32_CONST, *_signed(segment.address), _END])
    return place + _number(len(segment.content)) + bytes(segment.content)


def sizes(module: bytes) -> Mapping[str, int]:
    """Return the bytes of the code and of the constants of a module."""
    sections, _ = _sections(module)
    return {"code": len(sections[_CODE]), "data": len(sections.get(_DATA, b""))}
