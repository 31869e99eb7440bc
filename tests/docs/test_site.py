"""The site builds without a warning, and every internal link of it leads somewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="needs sphinx: pip install 'mxassay[docs]'")
pytest.importorskip("myst_parser", reason="needs myst-parser: pip install 'mxassay[docs]'")
pytest.importorskip("furo", reason="needs furo: pip install 'mxassay[docs]'")


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.anchors |= {known[name] or "" for name in ("id", "name") if name in known}
        self.links += [known[name] or "" for name in ("href", "src") if name in known]


@pytest.fixture(scope="module")
def site(docs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(docs), str(out)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out


def _lacks(page: _Page | None, path: Path, fragment: str) -> bool:
    """Whether the page has no such anchor. Behind the explorer's # stands its state."""
    if not fragment or page is None or path.parent.name == "explorer":
        return False
    return unquote(fragment) not in page.anchors


def test_every_internal_link_leads_somewhere(site: Path) -> None:
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    broken, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists() or _lacks(pages.get(target), target, parts.fragment):
                broken.append((path.name, link))
    assert checked > 500
    assert broken == []


def test_no_page_asks_another_host(site: Path) -> None:
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]*\ssrc="(https?:|//)|<link[^>]*rel="stylesheet"[^>]*href="(https?:|//)'
    )
    assert [path.name for path in site.rglob("*.html") if loaded.search(path.read_text(encoding="utf-8"))] == []


def test_the_explorer_is_in_the_site(site: Path, docs: Path) -> None:
    built, written = site / "explorer" / "index.html", docs / "explorer" / "index.html"
    assert built.read_bytes() == written.read_bytes()
