"""The links of the Markdown files lead somewhere: to a file, and to a heading of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.links import bare_paths, broken_links, slug

ROOT = Path(__file__).parents[1]
FILES = [
    *(path for path in sorted(ROOT.glob("*.md")) if path.is_file()),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if not path.is_symlink()),
    *sorted((ROOT / ".github").rglob("*.md")),
]


NAMES = [str(file.relative_to(ROOT)) for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_every_link_leads_somewhere(file: Path) -> None:
    assert [f"{link.line}: {link.target}: {link.problem}" for link in broken_links(file, ROOT)] == []


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_page_is_named_by_a_link(file: Path) -> None:
    assert [f"{link.line}: {link.target}" for link in bare_paths(file, ROOT)] == []


def test_each_kind_of_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "picture.png").write_bytes(b"")
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n## More\n\n## More\n\n```\n# none\n```\n<a id='here'></a>\n")
    good = (
        "[a](docs/page.md) [b](docs/page.md#more-1 'title') ![c](picture.png) [d](#start) [e](docs/page.md#here)\n"
        '<img src="picture.png"> [`docs/page.md`](docs/page.md) `[no](link.md)` `gone.md` [x]: https://x.example/y.md\n'
        "```\n[no](link.md)\n```\n<!-- [no](link.md) -->\n[ref]: docs/page.md\n    `docs/page.md`\n\n# Start\n"
    )
    bad = {
        "[a](docs/gone.md)": "no such file",
        "![a](gone.png)": "no such file",
        "[a](docs/page.md#less)": "no such heading",
        "[a](docs/page.md#more-2)": "no such heading",
        "[a](docs/page.md#none)": "no such heading",
        "[a](#gone)": "no such heading",
        "[`a`](gone.md 'title')": "no such file",
        '<source srcset="gone.png">': "no such file",
        "[ref]: gone.md": "no such file",
        "[a](../outside.md)": "outside the repository",
        "see `docs/page.md`": "a path where a link belongs",
        "see `page.md`": "a path where a link belongs",
    }
    outside = tmp_path.parent / "outside.md"
    outside.write_text("")
    readme = tmp_path / "README.md"
    readme.write_text(good)
    assert [*broken_links(readme, tmp_path), *bare_paths(readme, tmp_path)] == []
    for text, problem in bad.items():
        readme.write_text(f"{good}\n{text}\n")
        found = [*broken_links(readme, tmp_path), *bare_paths(readme, tmp_path)]
        assert [link.problem for link in found] == [problem], text


def test_anchors_are_those_of_github() -> None:
    assert slug("What it does, `--really`: a [link](x.md)!") == "what-it-does---really-a-link"
    assert slug("Kafka's C_old,new & more") == "kafkas-c_oldnew--more"
