"""``cuda.jit``: kernels and device functions with the interface of ``numba.cuda``, compiled by WarpDrive."""

from __future__ import annotations

import contextlib
import functools
import math
import pickle
from collections.abc import Callable
from functools import cached_property
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.core import config, serialize, sigutils, types
from numba.core.errors import DeprecationError, NumbaError
from numba.core.typing import signature as signature_of

from warpdrive.kernels.configuration import MAX_BLOCKS, MAX_THREADS
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import THREADS_FOR_ALL, python_function
from warpdrive.kernels.language import LARGEST_ARRAY
from warpdrive.kernels.name_lookup import names_grid
from warpdrive.kernels.source import FunctionSource
from warpdrive.launching import Kernel
from warpdrive.numba_cuda.arguments import converted, matching, prepared, type_of
from warpdrive.numba_cuda.casts import with_casts
from warpdrive.numba_cuda.driver import THREADS_AT_ONCE
from warpdrive.numba_cuda.errors import INVALID_VALUE, CudaAPIError, KernelTypingError, exception_of

Types = tuple[types.Type, ...]

MAX_CONFIGURATIONS = 128
"""Maximum number of launch configurations that a kernel keeps."""
LAUNCHED_AS = "a kernel is launched as kernel[blocks, threads](...): the launch configuration was not specified"
INVALID = "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"
ONLY_ON_GPUS = "kernels are compiled for this processor: there is no {} of them"


before_launch: Callable[[Launch, tuple[Any, ...]], bool] | None = None
"""Function that is called with each launch and its arguments, and returns False if the kernel is not to run."""


class Overload:
    """A kernel or device function for one combination of argument types."""

    regs_per_thread = 32
    const_mem_size = 0
    shared_mem_per_block = 0
    local_mem_per_thread = 0
    max_threads_per_block = MAX_THREADS[0]

    _codelibrary = SimpleNamespace(_linking_files=())

    def __init__(self, dispatcher: CUDADispatcher, argument_types: Types, return_type: types.Type) -> None:
        self._dispatcher = dispatcher
        self.argument_types, self.return_type = argument_types, return_type
        self.signature = signature_of(return_type, *argument_types)
        self.py_func = dispatcher.py_func
        self.entry_name = self.name = dispatcher.py_func.__name__

    @property
    def cooperative(self) -> bool:
        """True if blocks can wait for each other: the kernel uses the group of its grid."""
        return names_grid(self._dispatcher.source)

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Return the maximum number of blocks that can wait for each other."""
        return max(1, THREADS_AT_ONCE // math.prod(blockdim if isinstance(blockdim, tuple) else (blockdim,)))

    def bind(self) -> None:
        """Do nothing: kernels are compiled at their first launch."""

    def inspect_types(self, file: Any = None) -> None:
        """Print the argument types."""
        print(f"{self.name} {self.signature}", file=file)


class CUDADispatcher(Kernel):
    """Kernel or device function with the interface of ``numba.cuda``.

    Args:
        py_func: The Python function.
        targetoptions: Options of ``cuda.jit``; only ``device``, ``debug`` and ``extensions`` have an effect.
        signatures: Declared argument and return types, by argument types.
        specialized: If True, there is one declared signature, and launches need not choose.
    """

    def __init__(
        self,
        py_func: Any,
        targetoptions: dict[str, Any] | None = None,
        signatures: dict[Types, types.Type] | None = None,
        specialized: bool = False,
    ) -> None:
        super().__init__(python_function(py_func))
        self.targetoptions = targetoptions or {}
        self.debug = bool(self.targetoptions.get("debug"))
        self.declared, self.specialized = dict(signatures or {}), specialized
        self.overloads = {known: Overload(self, known, result) for known, result in self.declared.items()}
        self.specializations: dict[Types, CUDADispatcher] = {}
        self.extensions = self.targetoptions.get("extensions") or []
        self._seen: set[Any] = set()
        self._configured: dict[Any, Launch] = {}

    @property
    def py_func(self) -> Any:
        """The Python function."""
        return self.function

    @cached_property
    def source(self) -> FunctionSource:
        """Source of the function, with the conversions that a declared signature of a device function implies."""
        source = super().source
        if self.targetoptions.get("device") and len(self.declared) == 1:
            (declared,) = self.declared.items()
            return with_casts(source, *declared)
        return source

    @property
    def signatures(self) -> list[Types]:
        """Argument types of the known overloads."""
        return list(self.overloads)

    @property
    def nopython_signatures(self) -> list[Any]:
        """Signatures of the known overloads."""
        return [overload.signature for overload in self.overloads.values()]

    @property
    def definitions(self) -> dict[Types, Overload]:
        """The known overloads by argument types."""
        return self.overloads

    @property
    def definition(self) -> Overload:
        """The only overload."""
        (found,) = self.overloads.values()
        return found

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __reduce__(self) -> Any:
        return _unpickled, (serialize.dumps(self.function), self.targetoptions, self.declared, self.specialized)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise :class:`ValueError`: kernels are launched with a configuration."""
        raise ValueError(LAUNCHED_AS)

    def __getitem__(self, configuration: Any) -> Launch:
        """Return the kernel with a launch configuration; see :meth:`configure`."""
        if not isinstance(configuration, tuple) or len(configuration) not in (2, 3, 4):
            raise ValueError(f"expected kernel[blocks, threads, stream, bytes of shared memory]; {LAUNCHED_AS}")
        return self.configure(*configuration)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Launch:
        """Return the kernel with a launch configuration.

        Args:
            griddim: The number of blocks: an integer or a sequence of up to three.
            blockdim: The number of threads per block: an integer or a sequence of up to three.
            stream: Ignored: launches are synchronous.
            sharedmem: Bytes of dynamic shared memory per block.

        Returns:
            A callable that takes the kernel's arguments and launches it.

        Raises:
            TypeError: If a number is not an integer.
            ValueError: If there are no numbers, or too many.
        """
        if griddim is None or blockdim is None:
            raise ValueError(LAUNCHED_AS)
        key = _dimensions(griddim, "griddim"), _dimensions(blockdim, "blockdim"), sharedmem
        launch = self._configured.get(key)
        if launch is None:
            if len(self._configured) >= MAX_CONFIGURATIONS:
                self._configured.clear()
            launch = self._configured[key] = Launch(self, *key)
        return launch

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Return a callable that launches the kernel with at least ``ntasks`` threads.

        Args:
            ntasks: The number of threads needed; if 0, nothing is launched.
            tpb: The number of threads per block; 0 for the default.
            stream: Ignored: launches are synchronous.
            sharedmem: Bytes of dynamic shared memory per block.

        Returns:
            A callable that takes the kernel's arguments and launches it.

        Raises:
            ValueError: If ``ntasks`` is negative.
        """
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        if ntasks == 0:
            return lambda *arguments: None
        threads = tpb or THREADS_FOR_ALL
        return self[-(-ntasks // threads), threads, stream, sharedmem]

    def specialize(self, *args: Any) -> CUDADispatcher:
        """Return the kernel for the types of these arguments only. Raises :class:`RuntimeError` if it is one."""
        if self.specialized:
            raise RuntimeError("Dispatcher already specialized")
        argument_types = tuple(map(type_of, args))
        if argument_types not in self.specializations:
            declared = {argument_types: types.void}
            self.specializations[argument_types] = CUDADispatcher(self.function, self.targetoptions, declared, True)
        return self.specializations[argument_types]

    def compile(self, sig: Any) -> Overload:
        """Return the overload of a signature; it is compiled at its first launch."""
        argument_types, result = sigutils.normalize_signature(sig)
        return self._overload(argument_types, result or types.void)

    compile_device = compile

    def _overload(self, argument_types: Types, result: types.Type = types.void) -> Overload:
        if argument_types not in self.overloads:
            self.overloads[argument_types] = Overload(self, argument_types, result)
        return self.overloads[argument_types]

    def bind(self) -> None:
        """Do nothing: kernels are compiled at their first launch."""

    def disable_compile(self, val: bool = True) -> None:
        """Do nothing: only declared signatures restrict a kernel."""

    enable_caching = bind

    def _of_overloads(self, attribute: str, signature: Any) -> Any:
        if signature is not None:
            return getattr(self.overloads[getattr(signature, "args", signature)], attribute)
        if self.specialized:
            return getattr(self.definition, attribute)
        return {known: getattr(overload, attribute) for known, overload in self.overloads.items()}

    def get_regs_per_thread(self, signature: Any = None) -> Any:
        """Return a plausible number of registers of an overload, or of each by its argument types."""
        return self._of_overloads("regs_per_thread", signature)

    def get_const_mem_size(self, signature: Any = None) -> Any:
        """Return the bytes of constant memory, 0, of an overload, or of each by its argument types."""
        return self._of_overloads("const_mem_size", signature)

    def get_shared_mem_per_block(self, signature: Any = None) -> Any:
        """Return the bytes of shared memory of an overload, or of each by its argument types."""
        return self._of_overloads("shared_mem_per_block", signature)

    def get_local_mem_per_thread(self, signature: Any = None) -> Any:
        """Return the bytes of local memory of an overload, or of each by its argument types."""
        return self._of_overloads("local_mem_per_thread", signature)

    def get_max_threads_per_block(self, signature: Any = None) -> Any:
        """Return the maximum number of threads per block of an overload, or of each by its argument types."""
        return self._of_overloads("max_threads_per_block", signature)

    def inspect_types(self, file: Any = None) -> None:
        """Print the argument types of the overloads."""
        for overload in self.overloads.values():
            overload.inspect_types(file)

    def inspect_asm(self, signature: Any = None) -> Any:
        """Raise :class:`NotImplementedError`: there is no PTX."""
        raise NotImplementedError(ONLY_ON_GPUS.format("PTX"))

    inspect_ptx = inspect_asm

    def inspect_llvm(self, signature: Any = None) -> Any:
        """Raise :class:`NotImplementedError`: there is no LLVM IR for GPUs."""
        raise NotImplementedError(ONLY_ON_GPUS.format("LLVM IR for GPUs"))

    def inspect_sass(self, signature: Any = None) -> Any:
        """Raise :class:`NotImplementedError`: there is no SASS."""
        raise NotImplementedError(ONLY_ON_GPUS.format("SASS"))

    inspect_sass_cfg = inspect_lto_ptx = inspect_sass

    @property
    def ptx(self) -> Any:
        """Raises :class:`NotImplementedError`: there is no PTX."""
        return self.inspect_asm()

    def launch(self, arguments: tuple[Any, ...], run: Callable[..., None], launch: Launch) -> None:
        """Launch the kernel.

        Args:
            arguments: Its arguments.
            run: Launcher of the kernel.
            launch: The launch configuration.

        Raises:
            KernelTypingError: If the kernel cannot be compiled for the arguments.
            TypeError: If no declared signature takes them.
        """
        after: list[Callable[[], Any]] = []
        for extension in reversed(self.extensions):
            pairs = [(type_of(value), value) for value in arguments]
            arguments = tuple(extension.prepare_args(*pair, stream=0, retr=after)[1] for pair in pairs)
        given = tuple([prepared(value, after) for value in arguments])
        if self.declared:
            given = self._converted(given)
        key = tuple(
            [
                (value.dtype, value.flags.num, value.ndim) if isinstance(value, np.ndarray) else type(value)
                for value in given
            ]
        )
        check = before_launch  # another thread may reset it
        try:
            if check is None or check(launch, given):
                run(*given)
        except KernelError as error:
            raise exception_of(error.raised) if error.raised else KernelTypingError(str(error)) from None
        if key not in self._seen:
            self._seen.add(key)
            if not self.declared:
                with contextlib.suppress(ValueError, NumbaError):  # such as tensors
                    self._overload(tuple(map(type_of, given)))
        for function in after:
            function()

    def _converted(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(self.declared) == 1:
            (chosen,) = self.declared
        else:
            found = matching(tuple(map(type_of, arguments)), list(self.declared))
            if found is None:
                shown = ", ".join(str(type_of(value)) for value in arguments)
                raise TypeError(f"No matching definition of kernel '{self.py_func.__name__}' for arguments ({shown})")
            chosen = found
        if len(chosen) != len(arguments):
            raise TypeError(f"kernel '{self.py_func.__name__}' takes {len(chosen)} arguments, found {len(arguments)}")
        return tuple(map(converted, arguments, chosen))


class Launch:
    """Kernel with a launch configuration, called with the kernel's arguments."""

    def __init__(self, dispatcher: CUDADispatcher, griddim: Any, blockdim: Any, sharedmem: int) -> None:
        self.dispatcher, self.griddim, self.blockdim, self.sharedmem = dispatcher, griddim, blockdim, sharedmem
        self.stream = 0
        self._run: Callable[..., None] | None = None

    def __call__(self, *args: Any) -> None:
        """Launch the kernel.

        Raises:
            CudaAPIError: If the configuration exceeds the limits of a GPU.
            RuntimeError: If it is a device function.
        """
        if self._run is None:
            if self.dispatcher.targetoptions.get("device"):
                raise RuntimeError(f"'{self.dispatcher.py_func.__name__}' is a device function: it cannot be launched")
            self._run = self._launcher()
        self.dispatcher.launch(args, self._run, self)

    def _launcher(self) -> Callable[..., None]:
        blocks, threads, size = self.griddim, self.blockdim, self.sharedmem
        for counts, limits, unit in ((blocks, MAX_BLOCKS, "blocks"), (threads, MAX_THREADS, "threads")):
            if not all(0 < count <= limit for count, limit in zip(counts, limits, strict=True)):
                raise CudaAPIError(INVALID_VALUE, f"{INVALID}: {counts} {unit}, of at most {limits}")
        if math.prod(threads) > MAX_THREADS[0] or not 0 <= size <= LARGEST_ARRAY["shared.array"]:
            raise CudaAPIError(
                INVALID_VALUE,
                f"{INVALID}: {math.prod(threads)} threads in a block, of at most {MAX_THREADS[0]}, "
                f"with {size} bytes of shared memory",
            )
        return Kernel.__getitem__(self.dispatcher, (blocks, threads, 0, int(size)))


def _dimensions(given: Any, name: str) -> tuple[int, int, int]:
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    if not 1 <= len(values) <= 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {values}")
    if not all(isinstance(value, Integral) for value in values):
        raise TypeError(f"{name} must be a sequence of integers, got {values}")
    return (*map(int, values), 1, 1)[:3]  # type: ignore[return-value]


def _unpickled(function: bytes, *arguments: Any) -> CUDADispatcher:
    return CUDADispatcher(pickle.loads(function), *arguments)


def jit(func_or_sig: Any = None, device: bool = False, link: Any = None, **options: Any) -> Any:
    """Create a kernel or a device function, as a decorator with or without arguments.

    Args:
        func_or_sig: The function; or a signature, or a list of signatures, of the function that is decorated.
        device: If True, it is a device function.
        link: Must be empty: CUDA C or PTX cannot be linked.
        options: With ``debug=True``, launches check indices and divisors, and exceptions report the thread; the default
            is ``numba.config.CUDA_DEBUGINFO_DEFAULT``. ``extensions`` convert arguments of launches. ``opt``,
            ``fastmath``, ``lineinfo``, ``cache``, ``inline``, ``max_registers`` and the like have no effect.

    Returns:
        The kernel, or a decorator that returns it.

    Raises:
        NotImplementedError: If files are to be linked, or for ``boundscheck=True``.
        TypeError: If a kernel is declared to return something.
    """
    if link:
        raise NotImplementedError(
            f"cuda.jit(link={link!r}): CUDA C and PTX cannot be linked on the CPU; write the function in Python"
        )
    if options.get("boundscheck"):
        raise NotImplementedError("bounds checking is not supported for CUDA: use warpdrive.check_launch")
    for name in ("argtypes", "restype", "bind"):
        if options.get(name) is not None:
            raise DeprecationError(f"'{name}' is no option of cuda.jit any more: signatures are its first argument")
    if options.get("debug") is None:
        options["debug"] = bool(config.CUDA_DEBUGINFO_DEFAULT)
    options = {"device": device, "opt": True, "lineinfo": False, "fastmath": False, **options}
    is_one = sigutils.is_signature(func_or_sig)
    if not is_one and not isinstance(func_or_sig, list):
        make = functools.partial(CUDADispatcher, targetoptions=options)
        return make if func_or_sig is None else make(func_or_sig)
    declared: dict[Types, types.Type] = {}
    for given in [func_or_sig] if is_one else func_or_sig:
        argument_types, result = sigutils.normalize_signature(given)
        if not device and result not in (None, types.void):
            raise TypeError(f"CUDA kernel must have void return type: {given} is not")
        declared[argument_types] = result or types.void
    return lambda function: CUDADispatcher(function, options, declared, is_one)


def declare_device(name: str, sig: Any, **options: Any) -> Any:
    """Raise :class:`NotImplementedError`: there are no functions of CUDA C or PTX to declare.

    Raises :class:`TypeError` if the signature has no return type.
    """
    if sigutils.normalize_signature(sig)[1] is None:
        raise TypeError(f"Return type missing in the signature {sig} of device function '{name}'")
    raise NotImplementedError(
        f"cuda.declare_device('{name}', ...): functions of CUDA C and PTX cannot be called on the CPU; write the "
        "function in Python"
    )
