"""The project's code, and a user's, as one zip that executors unpack."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from kraftcheck.explorer.spark.executor_boot import PACKAGE, USER, digest_of, source_files
from kraftcheck.spec.discovery import PREFIX, modules_of, source_of
from kraftcheck.spec.language.protocol import Protocol

DATE = (2001, 9, 9, 0, 0, 0)


def make_bundle(protocol: type[Protocol], folder: Path) -> tuple[Path, str]:
    """Write the zip that executors need for a protocol; return it, and a digest of the project's code in it.

    Its name follows from its content.
    """
    own = source_files(Path(str(import_module(PACKAGE).__file__)).parents[1])
    files = sorted([*own, *_user_files(protocol)])
    target = folder / f"kraftcheck-{digest_of(files)}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            archive.writestr(zipfile.ZipInfo(name, DATE), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target, digest_of(own)


def _user_files(protocol: type[Protocol]) -> Iterator[tuple[str, Path]]:
    """Yield the files of modules that are not the project's: under their names, in the folder `USER`."""
    for module in modules_of(protocol):
        path = source_of(module)
        name = module.__name__
        if path is None or name.split(".")[0] == PACKAGE:
            continue
        yield f"{USER}/{name.removeprefix(PREFIX).replace('.', '/')}.py", path
        for depth in range(1, len(name.split("."))):
            outer = path.parents[depth - 1] / "__init__.py"
            if outer.is_file():
                package = "/".join(name.split(".")[:-depth])
                yield f"{USER}/{package}/__init__.py", outer
