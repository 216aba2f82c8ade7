"""JIT compilation of kernel functions, its disk cache, and intrinsics on unowned memory.

A kernel function is compiled in two ways. Python calls its *entry*: machine code, which is cached. Compiled
functions call its *callee*: intermediate code, which is linked into theirs and optimised there. So a function is
optimised once for each entry that needs it, and functions that Python does not call get no machine code.

With the environment variable `KRAFTCHECK_KERNEL=debug` each array index is checked; a negative one is an error.
Code that goes beyond Numba's documented API depends on one series of its releases, which `pyproject.toml` pins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from threading import Lock, local
from typing import Any
from zlib import crc32

import numba
from numba.core import caching, codegen, compiler_machinery, cpu, imputils, runtime, typed_passes
from numba.core import cgutils as llvm_utilities
from numba.core import compiler as numba_compiler
from numba.core import types as numba_types
from numba.extending import intrinsic
from numba.np import arrayobj as numpy_arrays

ir: Any = vars(llvm_utilities)["ir"]
types: Any = numba_types
cgutils: Any = llvm_utilities  # Numba's API has no annotations
impl_ret_untracked: Any = imputils.impl_ret_untracked
arrayobj: Any = numpy_arrays
_numba: Any = numba
_intrinsic: Any = intrinsic
_numba_passes: Any = compiler_machinery
numba_config = _numba.config

NUMBA_SERIES = "0.68."
"""The series of Numba releases whose internals this module uses; a test fails with any other."""
IS_DEBUG = os.environ.get("KRAFTCHECK_KERNEL") == "debug"
_numba_jit: Any = partial(_numba.njit, boundscheck=IS_DEBUG, no_cfunc_wrapper=True)
_CACHE_FOLDER_NAME = "kraftcheck"
CHECKSUM_BYTES = 4
OMITTED_NUMBA_PASSES = (
    "WithLifting",
    "InlineClosureLikes",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "InlineOverloads",
    "NopythonRewrites",
    "AnnotateTypes",
    "DumpParforDiagnostics",
)
"""Numba passes that change nothing in a kernel."""
_numba_caching: Any = caching
_NumbaCodeLibrary: Any = codegen.JITCodeLibrary
_NumbaCompiler: Any = numba_compiler.Compiler
_NumbaLowering: Any = typed_passes.NativeLowering
_make_numba_function: Any = vars(cpu)["_dynfunc"].make_function
_numba_runtime: Any = vars(runtime)["rtsys"]


def cache_folder_for_sources(*sources: Path) -> str:
    """Return the cache folder for the current sources of a kernel.

    The folder's name has a digest of all sources. Numba checks a function's own file only, but compiles constants of
    other files in as well.
    """
    digest = blake2b(b"debug" if IS_DEBUG else b"", digest_size=8)
    for folder in (Path(__file__).parent, *sources):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    with suppress(OSError, RuntimeError):
        folder = Path(given or Path.home() / ".cache") / _CACHE_FOLDER_NAME / digest.hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return str(folder)
    return str(numba_config.CACHE_DIR)


def kernel_compiler(*sources: Path) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a kernel function at its first call, and caches the code on disk."""
    folder = cache_folder_for_sources(*sources)
    return lambda function: LazyDispatcher(lambda: _compile_entry(function, folder))


class LazyDispatcher:
    """A function to compile. Its Numba dispatcher is made at its first use: a search uses few of some 400 functions."""

    _lock = Lock()

    def __init__(self, make_dispatcher: Callable[[], Any]) -> None:
        self._make_dispatcher = make_dispatcher
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return (self._dispatcher or self._made())(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher or self._made(), name)  # Numba finds its type here

    def _made(self) -> Any:
        with self._lock:
            if self._dispatcher is None:
                self._dispatcher = self._make_dispatcher()
        return self._dispatcher


def _compile_entry(function: Callable[..., Any], folder: str) -> Any:
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = folder
    try:
        entry = _numba_jit(cache=True, nogil=True, pipeline_class=_EntryPassPipeline)(function)
        entry._cache = _KernelCache(function)
    finally:
        numba_config.CACHE_DIR = before
    entry.compile = _compile_without_negative_indices(entry.compile)
    callee = _compile_callee(function)
    callee._compiling_counter = entry._compiling_counter  # shows Numba that a function calls itself
    entry.get_call_template, entry.get_overload = callee.get_call_template, callee.get_overload
    return entry


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls, inlined at each call."""
    return LazyDispatcher(lambda: _compile_callee(function, forceinline=True))


def _compile_callee(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function to LLVM intermediate code, which its compiled callers link and optimise."""
    callee = _numba_jit(pipeline_class=_CalleeCompiler, no_cpython_wrapper=True, **options)(function)
    callee.get_call_template = _ignore_integer_literals(callee.get_call_template)
    return callee


def _ignore_integer_literals(template_for: Callable[..., Any]) -> Callable[..., Any]:
    """Make a call template treat integer literals as plain integers, so that a function is compiled once for all."""
    return lambda args, kws: template_for(
        [types.unliteral(one) if isinstance(one, types.IntegerLiteral) else one for one in args], kws
    )


class _CalleeLibrary(_NumbaCodeLibrary):  # type: ignore[misc]
    """LLVM code of a function for its compiled callers, which optimise and compile it with their own."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@_numba_passes.register_pass(mutates_CFG=True, analysis_only=False)
class _CalleeLowering(_NumbaLowering):  # type: ignore[misc]
    """The compiler pass that lowers a callee to intermediate code."""

    _name = "callee_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _CalleeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered, library = state["cr"], state.library
        described = lowered.fndesc
        # The callee's stub in its callers. Python cannot call it: its address is 0.
        name = _make_numba_function(described.lookup_module(), described.qualname, "", 0, lowered.env, (library,))
        state.targetctx.insert_user_function(name, described, [library])
        state["cr"] = lowered._replace(cfunc=name)
        return True


class _EntryPassPipeline(_NumbaCompiler):  # type: ignore[misc]
    """Numba's compiler without the passes for closures, comprehensions and array expressions, which kernels lack."""

    lowering = _NumbaLowering

    def define_pipelines(self) -> list[Any]:
        (pipeline,) = super().define_pipelines()
        passes = [one for one in pipeline.passes if one[0].__name__ not in OMITTED_NUMBA_PASSES]
        pipeline.passes = [(self.lowering if one is _NumbaLowering else one, text) for one, text in passes]
        pipeline.finalize()
        return [pipeline]


class _CalleeCompiler(_EntryPassPipeline):
    """Numba's compiler for functions called by compiled code: it stops at LLVM code that the callers link."""

    lowering = _CalleeLowering


_compile_thread_local = local()
_numba_fix_index: Any = arrayobj.fix_integer_index


def _compile_without_negative_indices(compile_for: Callable[..., Any]) -> Callable[..., Any]:
    """Compile array accesses without support for negative indices, which kernels do not use.

    Numba adds the length to a negative index. The check takes three instructions for each access and a load of the
    length: a tenth of a search's time.
    """

    def compiled_for(*given: Any) -> Any:
        before = getattr(_compile_thread_local, "own", False)
        _compile_thread_local.own = True
        try:
            return compile_for(*given)
        finally:
            _compile_thread_local.own = before

    return compiled_for


def _index_without_wraparound(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Return an index without negative-index handling in kernel code, unless it is a constant."""
    if getattr(_compile_thread_local, "own", False) and not isinstance(index, ir.Constant) and kind.signed:
        return context.cast(builder, index, kind, types.intp)
    return _numba_fix_index(context, builder, kind, index, size)


arrayobj.fix_integer_index = _index_without_wraparound


class _MachineCodeSerializer(_numba_caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Serializer of compiled code. It loads machine code without the intermediate code, which takes longer to read."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        (name, kind, data), function, *rest = payload
        if kind != "object":
            return super().rebuild(target_context, payload)
        library = _deserialized_library(target_context.codegen(), name, data[0], function)
        given = _ContextWithLibrary(target_context, library)
        return super().rebuild(given, (None, function, *rest))._replace(target_context=target_context)

    def check_cachable(self, data: Any) -> bool:
        # Python drops a Ctrl-C in the callback that LLVM hands the machine code to, so there may be none to save.
        return data.library._compiled_object is not None and bool(super().check_cachable(data))


class _ContextWithLibrary:
    """Wrapper of a Numba target context that returns a given code library instead of deserializing one."""

    def __init__(self, context: Any, library: Any) -> None:
        self._context, self._library = context, library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> _ContextWithLibrary:
        """Return this wrapper, which also takes the code generator's place."""
        return self

    def unserialize_library(self, _: Any) -> Any:
        """Return the given code library, without deserializing one."""
        return self._library


def _deserialized_library(generator: Any, name: str, machine_code: bytes, function: Any) -> Any:
    library = generator.create_library(name)
    library.enable_object_caching()
    library._set_compiled_object(machine_code)
    library._finalize_final_module()
    generator._engine._defined_symbols |= {function.llvm_func_name, function.llvm_cpython_wrapper_name}
    return library


class _ChecksummedCacheFiles(_numba_caching.IndexDataCacheFile):  # type: ignore[misc]
    """Cache files with a checksum at their end; a damaged file counts as missing."""

    def load(self, key: Any) -> Any:
        try:
            return super().load(key)
        except ValueError:
            self.flush()
            return None

    def _load_index(self) -> Any:
        self._require_whole(Path(self._index_path))
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        self._require_whole(Path(self._data_path(name)))
        return super()._load_data(name)

    def _require_whole(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            if _checksum(content[:-CHECKSUM_BYTES]) != content[-CHECKSUM_BYTES:]:
                raise ValueError(f"{path} is damaged")

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BytesIO]:
        content = BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _checksum(content.getvalue()))


def _checksum(content: bytes) -> bytes:
    return crc32(content).to_bytes(CHECKSUM_BYTES, "big")


class _KernelCache(_numba_caching.FunctionCache):  # type: ignore[misc]
    """Disk cache of a function's compiled code.

    Numba prepares its whole compiler before it reads its cache. This class skips that; compiling a function that is not
    in the cache prepares the compiler then.
    """

    _impl_class = _MachineCodeSerializer

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file.__class__ = _ChecksummedCacheFiles

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _numba_runtime.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@_intrinsic  # type: ignore[untyped-decorator]
def unowned_array(context: Any, array: Any) -> Any:
    """Return an array without an owner: the same memory, which the caller must keep alive."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        copy = context.make_array(kind)(context, builder, value=arguments[0])
        copy.meminfo = cgutils.get_null_value(copy.meminfo.type)
        copy.parent = cgutils.get_null_value(copy.parent.type)
        return impl_ret_untracked(context, builder, kind, copy._getvalue())

    return array(array), generate


@_intrinsic  # type: ignore[untyped-decorator]
def keep_alive(_context: Any, array: Any) -> Any:
    """Keep an array alive up to this call; a use of its `unowned_array` view does not keep it alive."""
    return types.void(array), lambda context, *_: context.get_dummy_value()


@_intrinsic  # type: ignore[untyped-decorator]
def stack_array(context: Any, rows: Any, columns: Any) -> Any:
    """Return an uninitialised array of words that lives until the function returns."""
    kind = types.Array(types.uint64, 2, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, columns = arguments
        result = context.make_array(kind)(context, builder)
        data = builder.alloca(ir.IntType(64), size=builder.mul(rows, columns))
        size = ir.Constant(ir.IntType(64), 8)
        strides = [builder.mul(columns, size), size]
        arrayobj.populate_array(result, data, [rows, columns], strides, size, None)
        return result._getvalue()

    return kind(types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, array: Any, place: Any) -> Any:
    """Prefetch an array's element into the processor's cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, value=arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        offset = builder.mul(cgutils.unpack_tuple(builder, held.strides)[0], arguments[1])
        address = builder.gep(builder.bitcast(held.data, byte), [offset])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [address, to_read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _word_pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return a pointer to the eight bytes of a byte array from an index on."""
    return builder.bitcast(_element_pointer(context, builder, signature, arguments), ir.IntType(64).as_pointer())


@_intrinsic  # type: ignore[untyped-decorator]
def load64(_context: Any, array: Any, place: Any) -> Any:
    """Return the eight bytes of a byte array from an index on, as a little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_word_pointer(context, builder, signature, arguments), align=1)

    return types.uint64(array, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def store64(_context: Any, array: Any, place: Any, value: Any) -> Any:
    """Write a little-endian number to the eight bytes of a byte array from an index on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _word_pointer(context, builder, signature, arguments), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def move_bytes(_context: Any, array: Any, place: Any, to: Any, count: Any) -> Any:
    """Copy bytes within a byte array; the ranges may overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=arguments[0]).data
        source, target = builder.gep(data, [arguments[1]]), builder.gep(data, [arguments[2]])
        cgutils.raw_memmove(builder, target, source, arguments[3], 1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), generate


def _element_pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return a pointer to an element of a one-dimensional array."""
    data = context.make_array(signature.args[0])(context, builder, value=arguments[0]).data
    return builder.gep(data, [arguments[1]])


@_intrinsic  # type: ignore[untyped-decorator]
def add_atomically(_context: Any, array: Any, place: Any, more: Any) -> Any:
    """Add to an array element atomically; return its old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _element_pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", at, arguments[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def compare_and_swap(_context: Any, array: Any, place: Any, expected: Any, new: Any) -> Any:
    """Compare and swap an array element atomically; return its old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _element_pointer(context, builder, signature, arguments)
        found = builder.cmpxchg(at, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 0)

    return types.int64(array, types.int64, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def bytes_at_address(_context: Any, address: Any, count: Any) -> Any:
    """Return `count` bytes at an address, as an array without an owner."""
    kind = types.Array(types.uint8, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = context.make_array(kind)(context, builder)
        data = builder.inttoptr(arguments[0], result.data.type)
        size = ir.Constant(ir.IntType(64), 1)
        arrayobj.populate_array(result, data, [arguments[1]], [size], size, None)
        return result._getvalue()

    return kind(types.int64, types.int64), generate
