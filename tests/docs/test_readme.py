"""README.md: its commands are commands, its Python runs, its targets and folders exist. Pages too name real options."""

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from mxassay import cli

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`mxassay ([^`]+)`", re.DOTALL)


def _readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def _commands(text: str) -> list[list[str]]:
    """The words of each line in an unnamed fence that calls mxassay, without its remark."""
    lines = [line for language, body in _FENCE.findall(text) if not language for line in body.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("mxassay ")]


def _subcommands() -> dict[str, argparse.ArgumentParser]:
    action = next(a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def test_every_command_is_one(root: Path) -> None:
    commands = _commands(_readme(root))
    assert len(commands) > 12
    for words in commands:
        known, _ = cli._split_program(words)
        cli.parser().parse_args(known)  # exits where an option or its value is wrong


def test_a_wrong_command_would_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["check", "--shape", "edges", "--jsn"])
    assert "--jsn" in capsys.readouterr().err


def test_layouts_are_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [words for words in _commands(_readme(root)) if words[0] == "layout"]
    assert len(shown) == 3
    for words in shown:
        assert cli.main(words) == 0
    printed = capsys.readouterr().out
    assert "byte offset 122708 " in printed
    assert "byte offset 8150 " in printed


def test_the_python_runs(root: Path) -> None:
    (block,) = [body for language, body in _FENCE.findall(_readme(root)) if language == "python"]
    generator = torch.Generator().manual_seed(0)
    names: dict[str, Any] = {
        name: torch.randn(rows, 128, generator=generator).to(torch.bfloat16) for name, rows in (("a", 3), ("b", 32))
    }
    exec(compile(block, "README.md", "exec"), names)
    assert names["out"].shape == (3, 32)
    assert names["out"].isfinite().all()


def test_targets_and_folders_exist(root: Path) -> None:
    text = _readme(root)
    targets = re.findall(r"^(\w+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`?\bmake (\w+)(?=`|\s+#)", text)) <= set(targets)
    folders = re.findall(r"^\| `([\w/]+)/` \|", text, re.MULTILINE)
    assert len(folders) > 5
    assert [folder for folder in folders if not (root / folder).is_dir()] == []


def _anchors(page: Path) -> set[str]:
    """What the headings of a page may be called behind a #."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_between_files_lead_somewhere(root: Path) -> None:
    found = 0
    for page in (root / "README.md", root / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            found += 1
            assert (root / path).exists(), link
            assert not anchor or anchor in _anchors(root / path), link
    assert found > 2


def _named_in(text: str) -> list[str]:
    return [" ".join(words.split()) for words in _INLINE.findall(text)]


def test_options_in_the_words_of_every_page_exist(docs: Path, root: Path) -> None:
    """Commands inside a sentence leave values out, so that only their options can be checked."""
    known = _subcommands()
    pages = [*docs.rglob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]
    found = [(page.name, words) for page in pages for words in _named_in(page.read_text(encoding="utf-8"))]
    assert len(found) > 20
    wrong = []
    for page, words in found:
        command, *rest = words.split()
        options = known[command]._option_string_actions if command in known else {}
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        if command not in known and not command.startswith("--"):
            wrong.append((page, words))
        wrong += [(page, words) for option in given if command in known and option not in options]
    assert wrong == []


def test_no_block_can_show_a_command_that_goes_unrun(docs: Path) -> None:
    """A block in any other language than these shows no command that could go unrun."""
    languages = set()
    for page in docs.rglob("*.md"):
        languages |= set(re.findall(r"^\s*```(\S*)", page.read_text(encoding="utf-8"), re.MULTILINE)) - {""}
    assert languages <= {"console", "python", "text", "{toctree}", "{code-block}"}
