"""The docs as a site: built without a warning, with every public name, read without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import kraftcheck

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a page loads, where it leads, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(str(given[LOADED[tag]]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


def build(project: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def has_every_page(site: Path) -> None:
    start = Page((site / "index.html").read_text())
    assert {f"{name}.html" for name in PAGES} <= set(start.links) | {"index.html"}


def has_every_public_name(site: Path) -> None:
    anchors = {name.rpartition(".")[2] for name in Page((site / "api.html").read_text()).anchors if "." in name}
    assert set(kraftcheck.__all__) <= anchors
    text = (site / "api.html").read_text()
    for function in (kraftcheck.check, kraftcheck.load):
        assert str(function.__doc__).partition("\n")[0] in text
    assert text.count("Parameters:") > 20


def loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        for address in Page(path.read_text()).loaded:
            assert not urlsplit(address).netloc, (path.name, address)
    for path in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", path.read_text()), path


def has_no_broken_link(site: Path) -> None:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), (path.name, link)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, (path.name, link)


def test_the_site_is_built_without_a_warning_and_read_without_a_network(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    has_every_page(tmp_path)
    has_every_public_name(tmp_path)
    loads_nothing_from_elsewhere(tmp_path)
    has_no_broken_link(tmp_path)


def test_a_broken_link_fails_and_one_to_a_file_of_the_repository_does_not(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "growth.py").write_text("")
    shutil.copy(ROOT / "docs" / "site_hooks.py", tmp_path / "docs")
    config = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(config[: config.index("\nnav:")] + "\nnav: [index.md]\n")
    page = tmp_path / "docs" / "page.md"
    (tmp_path / "README.md").write_text("# Start\n\n[Page](docs/page.md#more), [growth](benchmarks/growth.py)\n")
    (tmp_path / "docs" / "index.md").symlink_to("../README.md")
    page.write_text("# Page\n\n## More\n\n[Growth](../benchmarks/growth.py), [start](../README.md)\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert 'href="page.html#more"' in (tmp_path / "out" / "index.html").read_text()
    page.write_text("# Page\n\n## More\n\n[a](../benchmarks/gone.py), [b](page.md#less), [c](gone.md)\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    for said in ("gone.py", "#less", "gone.md"):
        assert said in done.stderr
