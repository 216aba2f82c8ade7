"""Finding protocol classes: in an installed module, in a user's file, among the variants of a protocol."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

from kraftcheck.spec.errors import InputError, ProtocolError, unknown
from kraftcheck.spec.language.protocol import Protocol

PREFIX = "kraftcheck_user_"
"""Begins the names of modules made of users' files, so that a file called `json.py` replaces nothing."""


def load(path: str | Path, class_name: str) -> type[Protocol]:
    """Return a protocol class of a user's file.

    The file is imported under a name of its own; while it is, its folder is where it finds modules beside it.

    Parameters
    ----------
    path
        The file.
    class_name
        The class in it.

    Raises
    ------
    InputError
        If the file is not there or cannot be imported (naming the line), or the class is not in it or is no protocol.
    """
    module = _import_file(Path(path))
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    classes = [name for name, value in own.items() if _is_protocol(value)]
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
    return found  # type: ignore[no-any-return]


def protocol_in(module: ModuleType) -> type[Protocol]:
    """Return the protocol of a model's module: the one class defined there that is a protocol and no variant.

    Raises
    ------
    ProtocolError
        If there is none, or more than one.
    """
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    found: list[type[Protocol]] = [value for value in own if _is_protocol(value) and value.variant is None]
    if len(found) != 1:
        names = ", ".join(value.__name__ for value in found) or "none"
        raise ProtocolError(f"{module.__name__}: expected one protocol that is no variant, found {names}")
    return found[0]


def variants_of(protocol: type[Protocol]) -> dict[str, type[Protocol]]:
    """Return the variants of a protocol, by name.

    The module `variants` of the protocol's package is imported first, if there is one. A user's file may add variants
    to a shipped protocol: these are left out, since users name them by their file.

    Parameters
    ----------
    protocol
        The protocol, or one of its variants.
    """
    owner = next(base for base in protocol.__mro__ if "variants" in vars(base))
    package = sys.modules.get(owner.__module__)
    if hasattr(package, "__path__") and find_spec(f"{owner.__module__}.variants") is not None:
        import_module(f"{owner.__module__}.variants")
    is_users = protocol.__module__.startswith(PREFIX)
    return {
        name: changed
        for name, changed in protocol.variants.items()
        if is_users or not changed.__module__.startswith(PREFIX)
    }


def variant(protocol: type[Protocol], name: str) -> type[Protocol]:
    """Return the variant of a protocol that has a name.

    Raises
    ------
    InputError
        If it has none of that name.
    """
    known = variants_of(protocol)
    if name not in known:
        raise InputError(unknown("variant", name, known, protocol.name()))
    return known[name]


def summary(protocol: type[Protocol]) -> str:
    """Return the first sentence of a protocol's docstring, on one line; "" if it has none of its own."""
    paragraph = (protocol.__dict__.get("__doc__") or "").strip().split("\n\n")[0]
    text = " ".join(paragraph.split())
    sentence, dot, _ = text.partition(". ")
    return sentence + dot.strip()


def line_to_blame(error: BaseException, path: str | Path) -> int | None:
    """Return the line of a file in which an exception arose, innermost first; None where it is not involved."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _is_protocol(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Protocol) and value is not Protocol


def _import_file(path: Path) -> ModuleType:
    if not path.exists():
        raise InputError(f"{path}: there is no such file; expected a Python file with a protocol")
    if path.is_dir():
        raise InputError(f"{path}: expected a Python file with a protocol, found a folder")
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
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise InputError(_import_failure(path, error)) from error
    finally:
        sys.dont_write_bytecode = wrote
        sys.path.remove(folder)
    return module


def _import_failure(path: Path, error: BaseException) -> str:
    line = line_to_blame(error, path)
    place = str(path) if line is None else f"{path}:{line}"
    if isinstance(error, ProtocolError):
        return f"{place}: {error}"
    if isinstance(error, SyntaxError) and error.filename in (None, str(path)):
        return f"{place}: not Python: {error.msg}"
    return f"{place}: cannot be imported: {type(error).__name__}: {error}"
