"""Builds the site: `python docs/build_site.py [--serve] [FOLDER]`, with the extra `docs`.

The folder (`build/docs`) receives the pages, and `site` in it the site. Zensical builds it from `mkdocs.yml`: it is the
successor of Material for MkDocs, which is no longer developed, and runs no hooks of MkDocs. So this program prepares
the pages. Files from the top of the repository, such as README.md, become pages, and links to files that the site does
not have become plain text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
TOP = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files at the top of the repository, and their names as pages."""
OTHER = (".png", ".svg", ".json", ".txt", ".js")
"""Endings of files beside the pages that pages show, run or link to."""
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
SOURCE = re.compile(r"(?P<before>\b(?:src|srcset|href)=\")(?P<target>[^\"\s]+)(?=\")")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`(?!\]\()", re.MULTILINE | re.DOTALL)


def pages(root: Path) -> dict[Path, str]:
    """Return every file of the site with its path in the site."""
    docs = root / "docs"
    files = (path for path in sorted(docs.rglob("*")) if path.suffix in (".md", *OTHER) and not path.is_symlink())
    found = {root / name: page for name, page in TOP.items() if (root / name).exists()}
    return found | {path: path.relative_to(docs).as_posix() for path in files}


def rewritten(text: str, file: Path, site: dict[Path, str], root: Path) -> str:
    """Return a page's Markdown with its links as the site needs them."""

    def target_of(link: str) -> str | None:
        """Return the site's link, or None where it leads to a file of the repository that the site does not have."""
        path, mark, fragment = link.partition("#")
        found = (file.parent / path).resolve()
        if not path or "://" in link or link.startswith("mailto:"):
            return link
        if found in site:
            return os.path.relpath(site[found], Path(site[file]).parent).replace(os.sep, "/") + mark + fragment
        return None if found.exists() and found.is_relative_to(root) else link

    def link(match: re.Match[str]) -> str:
        target = target_of(match["target"])
        return match["text"] if target is None else f"{match['image']}[{match['text']}]({target})"

    def source(match: re.Match[str]) -> str:
        return match["before"] + (target_of(match["target"]) or match["target"])

    code: list[str] = []

    def keep(match: re.Match[str]) -> str:
        code.append(match[0])
        return f"\0{len(code) - 1}\0"

    text = CODE.sub(keep, text)
    text = SOURCE.sub(source, LINK.sub(link, text))
    return re.sub(r"\0(\d+)\0", lambda match: code[int(match[1])], text)


def navigation(entry: Any, site: dict[Path, str]) -> Any:
    """Return an entry of the contents, in which the name of a folder stands for its pages."""
    if isinstance(entry, list):
        return [navigation(item, site) for item in entry]
    if isinstance(entry, dict):
        return {title: navigation(item, site) for title, item in entry.items()}
    if entry.endswith("/"):
        return [page for page in site.values() if page.startswith(entry) and page.endswith(".md")]
    return entry


def prepare(root: Path, folder: Path) -> None:
    """Write the pages and the configuration to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    site = pages(root)
    for file, page in site.items():
        (folder / "docs" / page).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            (folder / "docs" / page).write_text(rewritten(file.read_text(), file, site, root))
        else:
            shutil.copy(file, folder / "docs" / page)
    config = yaml.safe_load((root / "mkdocs.yml").read_text())
    config["nav"] = navigation(config["nav"], site)
    mkdocstrings = next(one for one in config["plugins"] if "mkdocstrings" in one)
    mkdocstrings["mkdocstrings"]["handlers"]["python"]["paths"] = [str(root)]
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Build the site, or serve it; return the exit code."""
    serves = "--serve" in arguments
    given = [argument for argument in arguments if argument != "--serve"]
    folder = Path(given[0] if given else root / "build" / "docs").resolve()
    prepare(root, folder)
    command = ["serve"] if serves else ["build", "--strict"]
    return subprocess.run([sys.executable, "-m", "zensical", *command], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
