"""Compilation of this folder's functions, and their callbacks into Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import types
from numba.extending import intrinsic

from kraftcheck.explorer.native.compiling import cgutils, compiler
from kraftcheck.explorer.tables.kernel import native

jit = compiler(Path(__file__).parent, Path(native.__file__).parent)
_ir: Any = vars(cgutils)["ir"]
_INT64: Any = types.int64


def _call_back(_typing: Any, address: Any, kind: Any, a: Any, b: Any) -> Any:
    """Generate the call of a function of three integers by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = _ir.IntType(64)
        function = _ir.FunctionType(number, [number] * 3).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])

    return _INT64(_INT64, _INT64, _INT64, _INT64), generate


call_back: Any = intrinsic(_call_back)
