"""Discovery of protocol classes in modules, user files and variants, and of their value classes."""

from __future__ import annotations

import ast
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from sysconfig import get_paths
from types import ModuleType
from typing import Any, TypeGuard, get_args

from kraftcheck.spec.encoding import DecodingVocabulary
from kraftcheck.spec.errors import InputError, ProtocolError, name_and_text_of_error, unknown_name_message
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Symbol, field_types, is_enum, type_hints

OLD_TOP_LEVEL_PACKAGES = ("spec", "kraft_model", "explorer", "traces")
"""Packages of kraftcheck that user files once imported as top-level packages."""

PACKAGE_FOLDER = Path(__file__).parents[1]

ClassKey = tuple[str, str]
"""The module of a class and its qualified name."""

USER_MODULE_PREFIX = "kraftcheck_user_"
"""Prefix of the module names of user files, so that a file named `json.py` shadows no module."""


def load_protocol(path: str | Path, class_name: str) -> type[Protocol]:
    """Return a protocol class of a user file.

    The file is imported as a module with a prefixed name. During the import, its folder comes first on the import path,
    so that it finds modules beside it.
    """
    module = _import_file(Path(path))
    classes = [protocol.__name__ for protocol in protocols_of(module)]
    found = getattr(module, class_name, None)
    if found is None:
        raise InputError(f"{path}: {unknown_name_message('protocol', class_name, classes, 'the file')}")
    if not _is_protocol(found):
        listed = ", ".join(classes) or "none"
        raise InputError(f"{path}: {class_name} is not a protocol; expected a subclass of Protocol (there is {listed})")
    try:
        type_hints(found)
    except Exception as error:
        raise InputError(f"{path}: the annotations of {class_name} cannot be resolved: {error}") from error
    return found


def protocols_of(module: ModuleType) -> list[type[Protocol]]:
    """Return the protocol classes that a module defines, in order of definition."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return [value for value in own if _is_protocol(value)]


def innermost_line_in_file(error: BaseException, path: str | Path) -> int | None:
    """Return the innermost line of a file on an exception's traceback; None if the file is not on it."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or None  # Python reports line 0 for the file as a whole
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
    name = USER_MODULE_PREFIX + path.stem
    loader = SourceFileLoader(name, str(path))
    found = spec_from_loader(name, loader)
    assert found is not None
    module = module_from_spec(found)
    folder = str(path.resolve().parent)
    before, wrote = sys.modules.get(name), sys.dont_write_bytecode
    sys.modules[name] = module  # resolves the annotations
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        loader.exec_module(module)
        _resolve_annotations(module)
    except BaseException as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(_import_failure_message(path, error)) from error
    finally:
        sys.dont_write_bytecode = wrote
        sys.path.remove(folder)
    return module


def _resolve_annotations(module: ModuleType) -> None:
    """Resolve the annotations of a module's classes now: a later file of the same name takes its place."""
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__:
            with suppress(Exception):  # a protocol's own annotations are refused by name
                type_hints(value)


def _import_failure_message(path: Path, error: BaseException) -> str:
    moved = old_import_message(error) if isinstance(error, ImportError) else None
    if moved is not None:
        return moved
    line = innermost_line_in_file(error, path)
    place = str(path) if line is None else f"{path}:{line}"
    if isinstance(error, ProtocolError):
        return str(error) if str(error).startswith(str(path)) else f"{place}: {error}"
    if isinstance(error, SyntaxError) and error.filename in (None, str(path)):
        return f"{place}: not Python: {error.msg}"
    return f"{place}: cannot be imported: {name_and_text_of_error(error)}"


def old_import_message(error: ImportError) -> str | None:
    """Return the message for a failed import of a package's old name, or None."""
    package = (error.name or "").partition(".")[0]
    if package not in OLD_TOP_LEVEL_PACKAGES or getattr(sys.modules.get(package), "__file__", None) is not None:
        return None
    refusing = (PACKAGE_FOLDER / package / "__init__.py").resolve()
    *_, call = (
        call
        for call in traceback.extract_tb(error.__traceback__)
        if not call.filename.startswith("<frozen ") and Path(call.filename).resolve() != refusing
    )
    named = re.search(rf"\b{package}(?:\.\w+)*", call.line or "")
    module = name = named[0] if named else package
    while name != package and not _is_package_or_module_file(PACKAGE_FOLDER.joinpath(*name.split("."))):
        name = name.rpartition(".")[0]
    return f"{call.filename}:{call.lineno}: cannot be imported: {module} is an old name; expected kraftcheck.{name}"


def _is_package_or_module_file(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def protocol_of_module(module: ModuleType) -> type[Protocol]:
    """Return the protocol of a model's module: the only protocol class defined there that is not a variant."""
    found = [protocol for protocol in protocols_of(module) if protocol.variant is None]
    if len(found) != 1:
        names = ", ".join(protocol.__name__ for protocol in found) or "none"
        raise ProtocolError(f"{module.__name__}: expected one protocol that is no variant, found {names}")
    return found[0]


def variants_of(protocol: type[Protocol]) -> dict[str, type[Protocol]]:
    """Return the variants of a protocol, by name.

    The module `variants` of the protocol's package is imported first, if any. Variants that a user file adds to a
    shipped protocol are excluded, since users name them by their file.
    """
    owner = next(base for base in protocol.__mro__ if "variants" in vars(base))
    package = sys.modules.get(owner.__module__)
    if hasattr(package, "__path__") and find_spec(f"{owner.__module__}.variants") is not None:
        import_module(f"{owner.__module__}.variants")
    is_users = protocol.__module__.startswith(USER_MODULE_PREFIX)
    return {
        name: changed
        for name, changed in protocol.variants.items()
        if is_users or not changed.__module__.startswith(USER_MODULE_PREFIX)
    }


def variant_by_name(protocol: type[Protocol], name: str) -> type[Protocol]:
    """Return a protocol's variant by name; raise InputError if it is unknown."""
    known = variants_of(protocol)
    if name not in known:
        raise InputError(unknown_name_message("variant", name, known, protocol.name()))
    return known[name]


def first_docstring_sentence(protocol: type[Protocol]) -> str:
    """Return the first sentence of a protocol's own docstring, on one line; "" if it has none."""
    paragraph = (protocol.__dict__.get("__doc__") or "").strip().split("\n\n")[0]
    text = " ".join(paragraph.split())
    sentence, dot, _ = text.partition(". ")
    return sentence + dot.strip()


def classes_for_decoding(protocol: Protocol, states: Iterable[State]) -> dict[ClassKey, type]:
    """Return the record and symbol classes that occur in values of a protocol.

    They come from initial states, constants, symbols, the messages and actors of actions, and the protocol's modules.
    Field annotations of these classes add further classes.
    """
    seen = DecodingVocabulary()
    for value in (*states, *protocol.constant_values().values()):
        seen.note(value)
    named = [State, *seen.classes, *protocol.symbols]
    named += [cls for action in protocol.actions.values() for cls in (*action.messages, *action.actors)]
    named += [
        cls
        for module in project_modules_of_protocol(type(protocol))
        for cls in vars(module).values()
        if isinstance(cls, type)
    ]
    found: dict[ClassKey, type] = {}
    while named:
        cls = named.pop(0)
        name = (cls.__module__, cls.__qualname__)
        if name not in found and _is_record_or_enum(cls):
            found[name] = cls
            named += [used for annotation in _field_annotations(cls) for used in _classes_in_annotation(annotation)]
    return found


def _is_record_or_enum(cls: type) -> bool:
    return cls not in (Record, Symbol) and (issubclass(cls, Record) or is_enum(cls))


def _field_annotations(cls: type) -> list[Any]:
    try:
        return list(field_types(cls).values()) if issubclass(cls, Record) else []
    except NameError:  # a class defined within a function: its classes are found in its values
        return []


def _classes_in_annotation(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes_in_annotation(argument)


def project_modules_of_protocol(protocol: type[Protocol]) -> list[ModuleType]:
    """Return the modules that define a protocol and its bases, and the modules in or below their folders that they use.

    Installed packages, and other parts of kraftcheck, are left out.
    """
    bases = protocol.__mro__[: protocol.__mro__.index(Protocol)]
    waiting = [sys.modules[cls.__module__] for cls in bases if cls.__module__ in sys.modules]
    folders = {path.parent for path in map(source_path, waiting) if path is not None}
    found: dict[str, ModuleType] = {}
    seen = set[str]()
    while waiting:
        module = waiting.pop(0)
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = source_path(module)
        is_part = module.__name__ == protocol.__module__ if path is None else _is_project_module(module, path, folders)
        if is_part:
            found[module.__name__] = module
            waiting += [
                sys.modules[name] for name in sorted(_names_of_modules_used_by(module, path)) if name in sys.modules
            ]
    return [found[name] for name in sorted(found)]


def _names_of_modules_used_by(module: ModuleType, path: Path | None) -> set[str]:
    """Return the names of the modules that a module uses."""
    owners = {
        _defining_module_name(value)
        for name, value in vars(module).items()
        if not _is_submodule_imported_elsewhere(module, name, value)
    }
    return owners | _module_names_in_import_statements(module, path)


def _is_project_module(module: ModuleType, path: Path, folders: Iterable[Path]) -> bool:
    """Whether a module is in one of the folders, or below it and not installed."""
    if path.parent in folders:
        return True
    above = [folder for folder in folders if folder in path.parents]
    if not above or module.__name__.partition(".")[0] == PACKAGE_FOLDER.name:
        return False
    roots = [root for root in installed_folders() if root in path.parents]
    return any(not any(folder in root.parents for root in roots) for folder in above)


@cache
def installed_folders() -> set[Path]:
    """Return the folders of the standard library and of installed packages."""
    return {Path(path).resolve() for name, path in get_paths().items() if name.endswith("lib")}


def _module_names_in_import_statements(module: ModuleType, path: Path | None) -> Set[str]:
    """Return the modules that statements such as `import package.part` name: the module has the package alone."""
    packages = [one for one in vars(module).values() if isinstance(one, ModuleType) and hasattr(one, "__path__")]
    return set() if path is None or not packages else _imported_names_of_file(path)[0]


def _is_submodule_imported_elsewhere(module: ModuleType, name: str, value: object) -> bool:
    """Return whether an attribute is a submodule that some other module has imported.

    Which submodules are attributes of a package follows from what this process has imported before.
    """
    if not isinstance(value, ModuleType) or value.__name__ != f"{module.__name__}.{name}":
        return False
    path = source_path(module)
    return path is not None and name not in _imported_names_of_file(path)[1]


def _imported_names_of_file(path: Path) -> tuple[Set[str], Set[str]]:
    """Return the names in a file's `import` statements, and the last components of all names that it imports."""
    return _imported_names(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)  # searches in one process ask again and again
def _imported_names(path: Path, _modified: int) -> tuple[Set[str], Set[str]]:
    nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    return modules, {one.name.rpartition(".")[2] for node in nodes for one in node.names}


def _defining_module_name(value: object) -> str:
    """Return the name of the module that defines a value; for a module, its own name."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def source_path(module: ModuleType) -> Path | None:
    """Return the source file of a module, or None."""
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) else None
