"""Loads protocol classes from users' files."""

from __future__ import annotations

import sys
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TypeGuard, get_type_hints

from kraftcheck.spec.errors import InputError, ProtocolError, told_error, unknown
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.loading.old_imports import old_import

PREFIX = "kraftcheck_user_"
"""Begins the names of modules made of users' files, so that a file called `json.py` replaces nothing."""


def load(path: str | Path, class_name: str) -> type[Protocol]:
    """Return a protocol class of a user's file.

    The file is imported under a name of its own. Meanwhile its folder comes first on the import path, so that it
    finds modules beside it.
    """
    module = _import_file(Path(path))
    classes = [protocol.__name__ for protocol in protocols_of(module)]
    found = getattr(module, class_name, None)
    if found is None:
        raise InputError(f"{path}: {unknown('protocol', class_name, classes, 'the file')}")
    if not _is_protocol(found):
        listed = ", ".join(classes) or "none"
        raise InputError(f"{path}: {class_name} is not a protocol; expected a subclass of Protocol (there is {listed})")
    try:
        get_type_hints(found)
    except Exception as error:
        raise InputError(f"{path}: the annotations of {class_name} cannot be resolved: {error}") from error
    return found


def protocols_of(module: ModuleType) -> list[type[Protocol]]:
    """Return the protocol classes that a module defines, in the order of its names."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return [value for value in own if _is_protocol(value)]


def line_to_blame(error: BaseException, path: str | Path) -> int | None:
    """Return the line of a file in which an exception arose, innermost first; None if the file is not involved."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or None  # of the file as a whole Python says 0
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _is_protocol(value: object) -> TypeGuard[type[Protocol]]:
    return isinstance(value, type) and issubclass(value, Protocol) and value is not Protocol


def _import_file(path: Path) -> ModuleType:
    if not path.exists():
        raise InputError(f"{path}: there is no such file; expected a Python file with a protocol")
    if path.is_dir():
        raise InputError(f"{path}: expected a Python file with a protocol, found a folder")
    if path.is_char_device():  # /dev/zero has no end
        raise InputError(f"{path}: expected a Python file with a protocol, found a device")
    name = PREFIX + path.stem
    loader = SourceFileLoader(name, str(path))
    found = spec_from_loader(name, loader)
    assert found is not None
    module = module_from_spec(found)
    folder = str(path.resolve().parent)
    before, wrote = sys.modules.get(name), sys.dont_write_bytecode
    sys.modules[name] = module  # annotations are resolved through it
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        loader.exec_module(module)
    except BaseException as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(_import_failure(path, error)) from error
    finally:
        sys.dont_write_bytecode = wrote
        sys.path.remove(folder)
    return module


def _import_failure(path: Path, error: BaseException) -> str:
    moved = old_import(error) if isinstance(error, ImportError) else None
    if moved is not None:
        return moved
    line = line_to_blame(error, path)
    place = str(path) if line is None else f"{path}:{line}"
    if isinstance(error, ProtocolError):
        return str(error) if str(error).startswith(str(path)) else f"{place}: {error}"
    if isinstance(error, SyntaxError) and error.filename in (None, str(path)):
        return f"{place}: not Python: {error.msg}"
    return f"{place}: cannot be imported: {told_error(error)}"
