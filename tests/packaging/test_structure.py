"""The folders, the packages and the arrows of import are what the project says they are."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
SHIPPED = ("src/mxassay", "layouts", "reference", "optimized", "gfx950", "properties", "triage")

# Who may import whom. `mxassay.errors` is open to all; the front door, src/mxassay, may import everything. The suite
# and triage also need what describes a kernel, guards its buffers and names a profile: leaves that import nothing but
# errors.
ARROWS = {
    "layouts": set(),
    "reference": {"layouts"},
    "optimized": {"layouts", "reference"},
    "gfx950": set(),
    "properties": {"layouts", "reference", "optimized", "gfx950", "arenas", "kernels", "profiles"},
    "triage": {"layouts", "reference", "optimized", "gfx950", "properties", "arenas", "kernels", "profiles"},
}


def _python_files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def _imported(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_folder_with_modules_is_a_listed_package():
    folders = {
        file.parent.relative_to(ROOT).as_posix()
        for shipped in SHIPPED
        for file in _python_files(shipped)
        if "__pycache__" not in file.parts
    }
    assert folders == set(SETUPTOOLS["package-dir"].values())
    assert set(SETUPTOOLS["packages"]) == set(SETUPTOOLS["package-dir"])


@pytest.mark.parametrize("folder", sorted(ARROWS))
def test_arrows_of_import(folder):
    allowed = {folder, "errors"} | ARROWS[folder]
    for file in _python_files(folder):
        for name in _imported(ast.walk(ast.parse(file.read_text()))):
            if name.startswith("mxassay."):
                assert name.split(".")[1] in allowed, f"{file.relative_to(ROOT)} imports {name}"


def test_every_helper_of_the_tests_has_a_name_of_its_own():
    """Their folders share sys.path in one process, where the first of two would stand for both."""
    helpers = [file.name for file in _python_files("tests") if not file.name.startswith(("test_", "conftest"))]
    assert sorted(set(helpers)) == sorted(helpers)


def test_no_module_has_a_name_that_explains_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    found = [file for folder in SHIPPED for file in _python_files(folder) if file.stem in vague]
    assert not found


def test_no_file_is_longer_than_600_lines():
    files = [file for folder in (*SHIPPED, "tests") for file in _python_files(folder)]
    assert not [file for file in files if len(file.read_text().splitlines()) > 600]


@pytest.mark.parametrize("statement", ["import mxassay", "import mxassay.pytest_plugin", "import mxassay.cli"])
def test_the_front_door_loads_neither_torch_nor_triton(statement):
    code = f"{statement}; import sys; print(sorted({{'torch', 'triton', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert done.stdout.strip() == "[]"


def test_help_loads_neither_torch_nor_triton():
    code = (
        "import sys, mxassay.cli\n"
        "try: mxassay.cli.main(['check', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT / "src")


def test_aiter_is_never_imported_at_module_level():
    for folder in SHIPPED:
        for file in _python_files(folder):
            names = _imported(ast.parse(file.read_text()).body)
            assert not [name for name in names if name.split(".")[0] == "aiter"], file
