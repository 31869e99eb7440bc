"""The pages under docs/ as tests see them: fenced blocks, what may be run, what must come out."""

import importlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
AITER = os.environ.get("MXASSAY_AITER")
REASONS = (
    "takes minutes",
    "installs packages",
    "needs an aiter checkout",
    "needs a real MI355X",
    "needs a CUDA GPU",
)
_FENCE = re.compile(r"^(\s*)```(.*)$")
_NOTE = re.compile(r"^\s*<!-- (not run|exit status|files from|first): (.+) -->$")


@dataclass(frozen=True)
class Command:
    """One line behind a `$`, and the output that the page shows, None where it shows none."""

    text: str
    shown: str | None


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its `:caption:`, its text, the line it begins at, and the notes above it."""

    language: str
    caption: str
    text: str
    line: int
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[Command]:
        found: list[Command] = []
        shown: list[str] = []
        for line in [*self.text.splitlines(), "$ "]:
            if line.startswith("$ "):
                if found:
                    found[-1] = Command(found[-1].text, "\n".join(shown) if shown else None)
                found.append(Command(line[2:], None))
                shown = []
            else:
                shown.append(line)
        return found[:-1]


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    found = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    notes: dict[str, str] = {}
    for number, line in lines:
        if note := _NOTE.match(line):
            notes[note[1]] = note[2]
        elif fence := _FENCE.match(line):
            found.append(_block(fence[1], fence[2], number, lines, notes))
            notes = {}
        elif line.strip():
            notes = {}
    return found


def _block(indent: str, info: str, start: int, lines: Iterator[tuple[int, str]], notes: dict[str, str]) -> Block:
    body: list[str] = []
    for _, line in lines:
        if line.strip() == "```":
            break
        body.append(line.removeprefix(indent))
    language, caption = info.strip(), ""
    if language.startswith("{code-block}"):
        language = language.split()[1]
        while body and body[0].startswith(":"):
            name, _, value = body.pop(0)[1:].partition(": ")
            caption = value if name == "caption" else caption
        if body and not body[0]:
            body.pop(0)
    return Block(language, caption, "\n".join(body) + "\n", start, dict(notes))


def pages() -> list[Path]:
    """All Markdown pages."""
    return sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)


def page_id(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each thing that the pages show."""
    every = [(page, block) for page in pages() for block in blocks(page)]
    if "console" in metafunc.fixturenames:
        found = [(page, block) for page, block in every if block.language == "console"]
        names = [f"{page_id(page)}:{block.line}" for page, block in found]
        metafunc.parametrize("console", found, ids=names)
    if "python_page" in metafunc.fixturenames:
        found_pages = [page for page in pages() if any(_snippet(block) for block in blocks(page))]
        metafunc.parametrize("python_page", found_pages, ids=map(page_id, found_pages))


def _snippet(block: Block) -> bool:
    return block.language == "python" and not block.caption


@pytest.fixture
def snippets(python_page: Path) -> list[str]:
    """The Python blocks of a page that are no files."""
    return [block.text for block in blocks(python_page) if _snippet(block)]


@pytest.fixture
def workplace(console: tuple[Path, Block], tmp_path: Path) -> Path:
    """A folder with the files that a block's page shows before it, and those of the pages it names."""
    page, block = console
    if "files from" in block.notes:
        _write_files(page.with_name(f"{block.notes['files from']}.md"), tmp_path, None)
    _write_files(page, tmp_path, block.line)
    return tmp_path


def _write_files(page: Path, folder: Path, before: int | None) -> None:
    for block in blocks(page):
        if block.caption and (before is None or block.line < before):
            (folder / block.caption).write_text(block.text, encoding="utf-8")


@pytest.fixture(scope="session")
def reasons() -> tuple[str, ...]:
    """Why a command may not be run here."""
    return REASONS


@pytest.fixture(scope="session")
def checkout() -> str | None:
    """The root of an aiter checkout, where the environment names one."""
    return AITER


@pytest.fixture(scope="session")
def docs() -> Path:
    return DOCS


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def generate() -> ModuleType:
    """docs/generate.py, with its chapters importable."""
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))
    return importlib.import_module("generate")


@pytest.fixture(scope="session")
def chapters(generate: ModuleType) -> dict[str, ModuleType]:
    """The modules of docs/chapters, by name."""
    names = [path.stem for path in (DOCS / "chapters").glob("*.py") if path.stem != "__init__"]
    return {name: importlib.import_module(f"chapters.{name}") for name in names}
