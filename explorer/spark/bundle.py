"""The project's code, and a user's, as one zip that executors unpack."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from kraftcheck.explorer.spark.executor_boot import PACKAGE, USER, digest_of, source_files
from kraftcheck.spec.decoding import modules_of, source_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.loading.user_files import PREFIX

DATE = (2001, 9, 9, 0, 0, 0)


class Bundle(NamedTuple):
    """A zip.

    Attributes
    ----------
    path
        The file.
    digest
        Of the project's code in it.
    """

    path: Path
    digest: str


def make_bundle(protocol: type[Protocol], folder: Path) -> Bundle:
    """Write the zip that executors need for a protocol; its name follows from what it holds.

    Parameters
    ----------
    protocol
        The protocol.
    folder
        Where to put it.
    """
    root = Path(str(import_module(PACKAGE).__file__)).parents[1]
    own = [(path.relative_to(root).as_posix(), path) for path in source_files(root)]
    files = sorted([*own, *_user_files(protocol)])
    digest = blake2b(digest_size=16)
    for name, path in files:
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    target = folder / f"kraftcheck-{digest.hexdigest()}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            archive.writestr(zipfile.ZipInfo(name, DATE), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return Bundle(target, digest_of(root))


def _user_files(protocol: type[Protocol]) -> Iterator[tuple[str, Path]]:
    """Yield the files of modules that are not the project's: under their names, from the folder `USER` on."""
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
