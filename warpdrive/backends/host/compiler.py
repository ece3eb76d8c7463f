"""Numba's compiler pipeline with fewer passes, in which device functions are optimised only with their callers.

By default numba optimises each function as a whole program, emits machine code for it, and optimises it again within
each caller.

Here device functions are only lowered, as is the body of a block with arrays in shared memory: LLVM's module passes and
code generation run on their callers. Device functions that several kernels have are lowered once, signatures of
operators are cached, passes that no kernel needs are left out, the live ranges of variables are computed once instead
of after each pass, and the garbage collector is paused.
``benchmarks/compile_time.py`` measures each of these: for a large kernel, LLVM takes a third of the compile time and
numba's Python half.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar
from unittest.mock import patch
from weakref import WeakValueDictionary

import llvmlite.binding as llvm
import numpy as np
from numba import _dynfunc, types
from numba.core import cgutils
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import CompilerPass, FunctionPass, PassManager, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.rewrites.static_getitem import RewriteStringLiteralGetitems, RewriteStringLiteralSetitems
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import (
    AnnotateTypes,
    DumpParforDiagnostics,
    NativeLowering,
    NopythonRewrites,
    NopythonTypeInference,
)
from numba.core.typing.context import Context
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
)

import warpdrive.backends.host.half  # noqa: F401

SKIPPED = frozenset(
    {
        AnnotateTypes,
        DumpParforDiagnostics,
        FindLiterallyCalls,
        InlineClosureLikes,
        InlineInlinables,
        LiteralPropagationSubPipelinePass,
        LiteralUnroll,
        MakeFunctionToJitFunction,
        WithLifting,
    }
)
"""Skipped passes: constructs that no kernel contains, and unused reports."""


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Library of a function that is linked into its callers' libraries and optimised with them."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the module is optimised with its callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class LinkingLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Library that is compiled to machine code together with all libraries linked into it."""

    def _optimize_final_module(self) -> None:
        """Optimise the module; inline the functions that vectorised loops call. See :func:`.outlining.outlined`."""
        self._link_recursive_functions()
        for function in self._final_module.functions:
            if function.name in never_inlined and not function.is_declaration:
                function.linkage = "internal"  # its constant arguments are then propagated into it
                function.add_function_attribute("noinline")
        if _captures:
            if any(function.name.startswith("cfunc.") for function in self._final_module.functions):
                raise CapturedError(str(self._final_module))
            return
        super()._optimize_final_module()
        with self._codegen._pass_builder() as builder:
            passes = llvm.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.add_simplify_cfg_pass()
            passes.run(self._final_module, builder)

    def _link_recursive_functions(self) -> None:
        """Link functions that were called while they were being compiled, and so are in no library that was linked."""
        while True:
            declared = [function.name for function in self._final_module.functions if function.is_declaration]
            missing = [name for name in declared if name in libraries]
            if not missing:
                break
            self._final_module.link_in(libraries[missing[0]]._get_module_for_linking(), preserve=True)

    def _finalize_specific(self) -> None:
        """Set the addresses of numba's environments, which printing in a linked function needs, in the machine code."""
        super()._finalize_specific()
        symbols = {variable.name for variable in self._final_module.global_variables}
        for name in symbols & environments.keys():
            self._codegen.set_env(name, environments[name])


class CapturedError(Exception):
    """Raised to end a compilation of which only the code before the passes, its argument, is needed."""


_captures: list[bool] = []
"""Not empty while code is captured."""


def captured_code(compile_entry: Callable[[], object]) -> str:
    """Return the LLVM assembly of an entry with all functions that it calls, without the passes for this machine.

    Args:
        compile_entry: Compiles the entry, a ``cfunc``, anew; this ends before LLVM's passes.

    Returns:
        The assembly.
    """
    _captures.append(True)
    try:
        compile_entry()
    except CapturedError as captured:
        return str(captured.args[0])
    finally:
        _captures.pop()
    raise AssertionError("nothing was compiled")


libraries: WeakValueDictionary[str, LinkedLibrary] = WeakValueDictionary()
"""Libraries of linked functions, by the symbols of these."""
never_inlined: set[str] = set()
"""Symbols of functions that are called rather than inlined."""
environments: dict[str, Any] = {}
"""Environments of linked functions, by the symbols that hold their addresses; they live as long as the code."""


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringOfEntry(NativeLowering):  # type: ignore[misc]
    """Lowering pass that emits a function into a separate library."""

    _name = "lowering_of_entry"
    library = LinkingLibrary

    def run_pass(self, state: Any) -> bool:
        """Set ``state.cr`` as numba's own pass does."""
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class QuickLibrary(LinkingLibrary):
    """Library for code that runs in one thread: it is compiled in a quarter of the time, without vectorisation."""

    def _optimize_final_module(self) -> None:
        self._link_recursive_functions()
        passes, builder = self._codegen._module_pass_manager(opt=1, loop_vectorize=False, slp_vectorize=False)
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class QuickLowering(LoweringOfEntry):
    """Lowering pass for code that runs in one thread."""

    _name = "quick_lowering"
    library = QuickLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringToLink(NativeLowering):  # type: ignore[misc]
    """Lowering pass that emits a function for linking into its callers."""

    _name = "lowering_to_link"

    def run_pass(self, state: Any) -> bool:
        """Set ``state.cr`` as numba's own pass does."""
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        with patch.object(type(state.targetctx.codegen()), "insert_unresolved_ref", _reference):
            super().run_pass(state)
        lowered = state["cr"]
        described = lowered.fndesc
        libraries[described.mangled_name] = state.library
        environments[state.targetctx.get_env_name(described)] = lowered.env
        function = _registered(state.targetctx, described, lowered.env, state.library)
        state["cr"] = _LowerResult(described, lowered.call_helper, cfunc=function, env=lowered.env)
        return True


def _registered(context: Any, described: Any, environment: Any, library: Any) -> Any:
    """Return a new object that represents compiled code in numba's tables, and that Python never calls.

    Numba removes it with the function that it was compiled for: functions that share code have one each.
    """
    nowhere = 0
    function = _dynfunc.make_function(described.lookup_module(), described.qualname, "", nowhere, environment, ())
    context.insert_user_function(function, described, [library])
    return function


def _reference(codegen: Any, builder: Any, kind: Any, name: str) -> Any:
    """Return a function that is not compiled yet, since it is recursive."""
    return cgutils.get_or_insert_function(builder.module, kind, name)


@register_pass(mutates_CFG=False, analysis_only=False)
class FieldsByName(FunctionPass):  # type: ignore[misc]
    """Subset of numba's rewrites after type inference that kernels need: access to record fields by name.

    The other rewrites are of whole-array expressions, which allocate memory.
    """

    _name = "fields_by_name"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Apply each rewrite to each block until it matches nothing."""
        blocks = state.func_ir.blocks
        for kind in (RewriteStringLiteralGetitems, RewriteStringLiteralSetitems):
            rewrite = kind(state)
            for key in blocks:
                while rewrite.match(state.func_ir, blocks[key], state.typemap, state.calltypes):
                    blocks[key] = rewrite.apply()
        return True


class RememberingContext(Context):  # type: ignore[misc]
    """View of numba's typing context that caches operator signatures by operand types.

    Numba tries dozens of candidates for each occurrence of an operator.
    """

    signatures: ClassVar[dict[tuple[Any, tuple[types.Type, ...]], Any]] = {}

    def __init__(self, context: Context) -> None:
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: tuple[types.Type, ...], kws: Mapping[str, types.Type]) -> Any:
        """Return the signature of a call.

        Args:
            func: The function, or its type.
            args: Types of the positional arguments.
            kws: Types of the keyword arguments.

        Returns:
            The signature, or None if there is none.
        """
        named = func.typing_key if isinstance(func, types.Function) else func
        if kws or getattr(named, "__module__", None) != operator.add.__module__:
            return super().resolve_function_type(func, args, kws)
        key = func, args
        if key not in self.signatures:
            self.signatures[key] = super().resolve_function_type(func, args, kws)
        return self.signatures[key]

    def resolve_setitem(self, target: types.Type, index: types.Type, value: types.Type) -> Any:
        """Return the signature of an assignment to an element.

        Args:
            target: Type of the container.
            index: Type of the index.
            value: Type of the assigned value.

        Returns:
            The signature, or None if there is none.
        """
        key = operator.setitem, (target, index, value)
        if key not in self.signatures:
            self.signatures[key] = super().resolve_setitem(target, index, value)
        return self.signatures[key]


class KernelPasses(PassManager):  # type: ignore[misc]
    """Pass manager that does not recompute live variables after each pass; only lowering needs them."""

    @global_compiler_lock  # type: ignore[untyped-decorator]
    def run(self, state: Any) -> None:
        """Run all passes on a function."""
        with _lazy_liveness(state.func_id):
            super().run(state)


@contextmanager
def _lazy_liveness(function: FunctionIdentity) -> Iterator[None]:
    """Defer numba's liveness analysis of a function until a pass requests deletions."""
    at_once = PostProcessor.run

    def run(self: PostProcessor, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        code = self.func_ir
        if emit_dels or code.func_id is not function:
            at_once(self, emit_dels, extend_lifetimes)
            return
        code.blocks = canonicalize_cfg(code.blocks)
        code.variable_lifetime = VariableLifetime(code.blocks)
        code.generator_info = None

    with patch.object(PostProcessor, "run", run):
        yield


class EntryCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline without the passes that kernels do not need."""

    lowering: type[NativeLowering] = LoweringOfEntry

    def __init__(self, typingctx: Context, *arguments: Any) -> None:
        super().__init__(RememberingContext(typingctx), *arguments)

    def define_pipelines(self) -> list[PassManager]:
        """Return the only pipeline."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        instead = {NativeLowering: self.lowering, NopythonRewrites: FieldsByName}
        return [_pipeline((instead.get(kind, kind), text) for kind, text in passes)]

    def infer_types(self, function: FunctionType) -> Mapping[str, types.Type]:
        """Return the types of a function's variables without compiling it. Raises numba's errors."""
        self.state.func_id = FunctionIdentity.from_function(function)
        self.state.bc = ByteCode(self.state.func_id)
        passes = DefaultPassBuilder.define_untyped_pipeline(self.state).passes
        _pipeline([*passes, (NopythonTypeInference, "types")]).run(self.state)
        found: Mapping[str, types.Type] = self.state.typemap
        return found


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringOfBlocks(LoweringOfEntry):
    """Lowering pass for a function whose array arguments share no memory."""

    _name = "lowering_of_blocks"

    def run_pass(self, state: Any) -> bool:
        """See :class:`LoweringOfEntry`."""
        state.flags.noalias = True
        return super().run_pass(state)


class BlockCompiler(EntryCompiler):
    """Pipeline of functions whose array arguments share no memory, so that LLVM may reorder accesses to them."""

    lowering = LoweringOfBlocks


class QuickCompiler(EntryCompiler):
    """Pipeline of the entries of launches of one thread."""

    lowering = QuickLowering


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringToCall(LoweringToLink):
    """Lowering pass that emits a function for linking into its callers, which call it."""

    _name = "lowering_to_call"

    def run_pass(self, state: Any) -> bool:
        """Set ``state.cr`` as numba's own pass does."""
        super().run_pass(state)
        never_inlined.add(state["cr"].fndesc.mangled_name)
        return True


class FunctionCompiler(EntryCompiler):
    """Pipeline of functions that only other compiled functions call.

    Functions with the same content are compiled once per process: most functions of a fused step are the library's own.
    """

    lowering = LoweringToLink
    compiled: ClassVar[dict[Any, Any]] = {}

    def compile_extra(self, func: FunctionType) -> Any:
        """Return numba's result of compiling a function."""
        state = self.state
        key = _content_of(func), state.args, state.return_type, str(state.flags)
        if key not in self.compiled:
            self.compiled[key] = super().compile_extra(func)._replace(metadata=None)  # times, noted once
            return self.compiled[key]
        found = self.compiled[key]
        function = _registered(state.targetctx, found.fndesc, found.environment, found.library)
        return found._replace(entry_point=function)


class CalledFunctionCompiler(FunctionCompiler):
    """Pipeline of functions that are called rather than inlined."""

    lowering = LoweringToCall
    compiled: ClassVar[dict[Any, Any]] = {}


_contents: dict[Any, int] = {}
_in_progress: list[FunctionType] = []


def _content_of(function: FunctionType) -> int | str:
    """Return a number for the content of a function: the same for the same code, if its names mean the same."""
    if function in _in_progress:  # it is recursive
        return function.__name__
    _in_progress.append(function)
    code, meanings = function.__code__, function.__globals__
    named = [_meaning_of(meanings[name]) if name in meanings else name for name in code.co_names]
    _in_progress.pop()
    return _contents.setdefault((code.co_code, repr(code.co_consts), code.co_varnames, *named), len(_contents))


def _meaning_of(value: Any) -> Any:
    """Return a hashable description of the value of a name in a function."""
    if isinstance(value, Dispatcher) or hasattr(value, "py_func"):
        return _content_of(value.py_func), str(value.targetoptions)
    if isinstance(value, tuple):
        return type(value), *map(_meaning_of, value)
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    is_number = isinstance(value, bool | int | float)  # 0.0 equals -0.0, and False
    return type(value), repr(value) if is_number else value


def _pipeline(passes: Iterable[tuple[type[CompilerPass], str]]) -> PassManager:
    pipeline = KernelPasses("kernel")
    for kind, text in passes:
        if kind not in SKIPPED:
            pipeline.add_pass(kind, text)
    pipeline.finalize()
    return pipeline
