"""Build the wheel, look into it, install it into a clean environment, and use it there, away from the checkout.

Run as `make wheel`. Not a pytest file: it needs the package registry and a minute.
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    print("+", *words, flush=True)
    return subprocess.run([str(word) for word in words], cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def expected_files() -> set[str]:
    """Every Python file of every listed package and what it reads at run time, as the wheel names them."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = setuptools["package-dir"]
    found = set()
    for package in setuptools["packages"]:
        for file in (ROOT / folders[package]).iterdir():
            if file.suffix in (".py", ".css", ".toml", ".json"):
                found.add(f"{package.replace('.', '/')}/{file.name}")
    return found


def look_into(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = expected_files() - names
    assert not missing, f"the wheel must hold every module, not lack {sorted(missing)}"
    tops = {name.split("/")[0] for name in names}
    assert tops <= {"mxassay", next(top for top in tops if top.endswith(".dist-info"))}, tops
    assert not [name for name in names if name.endswith((".co", ".hsaco"))]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", scratch)
        (wheel,) = scratch.glob("*.whl")
        look_into(wheel)
        venv.create(scratch / "clean", with_pip=True)
        binaries = scratch / "clean" / "bin"
        run(binaries / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=scratch)
        assert run(binaries / "mxassay", "--version", cwd=scratch).startswith("mxassay ")
        print(run(binaries / "mxassay", "layout", "weight_preshuffle", cwd=scratch))
        print(run(binaries / "mxassay", "check", "--shapes", "5,48,320", "--report", "run.html", cwd=scratch))
        fixtures = run(binaries / "python", "-m", "pytest", "--fixtures", "-q", cwd=scratch)
        assert "mx_device" in fixtures, "pytest must find the plugin through its entry point"
    print("wheel: built, complete, installed and used in a clean environment")


if __name__ == "__main__":
    main()
