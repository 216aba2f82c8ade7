"""What mkdocs does besides.

Pages that the contents in `mkdocs.yml` leave out come at their end. Links to files of the repository that are no pages
of the site become their names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent
_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Add to the contents the pages that they leave out."""
    listed = str(config.nav)
    config.nav += [path.name for path in sorted(Path(config.docs_dir).glob("*.md")) if f"'{path.name}'" not in listed]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text with the links that the site has; those of the README begin at the repository's top."""
    place = Path(page.file.abs_src_path)
    folder = place.resolve().parent

    def linked(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        file = (folder / target).resolve()
        if file.is_relative_to(DOCS) and file.exists():
            return f"[{text}]({os.path.relpath(file, place.parent)}{anchor})"
        return text if file.is_relative_to(ROOT) and file.exists() else match[0]

    return _LINK.sub(linked, markdown)
