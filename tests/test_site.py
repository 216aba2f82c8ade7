"""The docs as a site: built without a warning, with every page and public name, read without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import kraftcheck
from tests.support.browser import Watched, chromium

ROOT = Path(__file__).parents[1]
LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The resources that a page loads, its links and its anchors."""

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
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") != "canonical":
            self.loaded.append(str(given[LOADED[tag]]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


def build(project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(project / "docs" / "build_site.py"), str(folder)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def pages() -> list[str]:
    """Return the pages of the site, by their files."""
    top = [name.lower() for name in ("CHANGELOG.md", "CONTRIBUTING.md") if (ROOT / name).exists()]
    docs = [str(path.relative_to(ROOT / "docs")) for path in sorted((ROOT / "docs").rglob("*.md"))]
    return sorted(["index.md", *top, *docs])


def listed() -> list[str]:
    """Return the pages that the contents list; a folder stands for its pages."""
    contents = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    names = re.findall(r"^ *- (?:[\w -]+: )?(\S+(?:\.md|/))$", contents, re.MULTILINE)
    return [page for name in names for page in pages() if page == name or (name[-1] == "/" and page.startswith(name))]


def test_the_contents_list_each_page_once() -> None:
    assert sorted(listed()) == pages()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, which is built without a warning."""
    folder = tmp_path_factory.mktemp("built")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.slow
def test_the_site_has_each_page_and_is_read_without_a_network(site: Path) -> None:
    built = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    linked = {(path.parent / link.partition("#")[0]).resolve() for path, page in built.items() for link in page.links}
    names = (page.removesuffix(".md").removesuffix("README") or "index" for page in pages())
    expected = {site / f"{name}index.html" if name[-1] == "/" else site / f"{name}.html" for name in names}
    assert expected == set(built) <= linked
    text = (site / "api.html").read_text()
    anchors = {name.rpartition(".")[2] for name in Page(text).anchors if "." in name}
    assert set(kraftcheck.__all__) <= anchors
    for function in (kraftcheck.check, kraftcheck.load):
        assert str(function.__doc__).partition("\n")[0] in text
    assert text.count("Parameters:") > 20
    for path, page in built.items():
        for address in page.loaded:
            assert not urlsplit(address).netloc, (path.name, address)
    for path in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", path.read_text()), path


@pytest.mark.slow
def test_a_broken_link_fails_and_one_to_a_file_of_the_repository_does_not(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "growth.py").write_text("")
    shutil.copy(ROOT / "docs" / "build_site.py", tmp_path / "docs")
    config = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(config[: config.index("\nnav:")] + "\nnav: [index.md, page.md]\n")
    page = tmp_path / "docs" / "page.md"
    (tmp_path / "README.md").write_text("# Start\n\n[Page](docs/page.md#more), [growth](benchmarks/growth.py)\n")
    page.write_text("# Page\n\n## More\n\n[Growth](../benchmarks/growth.py), [start](../README.md)\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "out" / "site" / "index.html").read_text()
    assert 'href="page.html#more"' in text
    assert "growth.py" not in text
    for broken in ("page.md#less", "gone.md"):
        page.write_text(f"# Page\n\n## More\n\n[a]({broken})\n")
        done = build(tmp_path, tmp_path / "out")
        assert done.returncode != 0, broken
        assert "does not exist" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_opened_as_a_file_searches_the_site_and_copies_commands(site: Path) -> None:
    with chromium() as browser:
        watched = Watched(browser.new_page())
        watched.open(site / "decisions" / "site.html")
        watched.page.locator(".md-search__button").click()
        watched.page.wait_for_timeout(1_000)  # until the field has the focus
        watched.page.keyboard.type("fairness")
        watched.page.locator("a[href$='temporal.html?h=fairness']").wait_for(timeout=10_000)
        watched.open(site / "tutorial.html")
        noted = "addEventListener('copy', (event) => window.copied = event.clipboardData.getData('text'))"
        watched.page.evaluate(noted)
        block = watched.page.locator(".highlight").filter(has_text="simulate quorum")
        block.hover()
        block.locator("button").click()
        watched.page.wait_for_function("window.copied")
        assert watched.page.evaluate("window.copied") == "kraftcheck simulate quorum --runs 500 --seed 1 --quiet"
        assert [trouble for trouble in watched.troubles if not trouble.startswith("request: file:")] == []
