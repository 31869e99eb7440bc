"""The copy that faults are planted in."""

import compileall
from pathlib import Path

import mxassay
from mxassay.properties.faults.tree import snapshot


def test_a_copy_of_an_install_of_links_holds_the_tests_too(tmp_path, monkeypatch):
    """Strict editable installs are folders of links; without tests no judge's fault would be killed by its own."""
    farm = tmp_path / "farm" / "mxassay"
    farm.mkdir(parents=True)
    (farm / "__init__.py").symlink_to(Path(mxassay.__file__).resolve())
    monkeypatch.setattr(mxassay, "__file__", str(farm / "__init__.py"))
    monkeypatch.setattr(compileall, "compile_dir", lambda root, quiet: None)
    tree = snapshot(tmp_path / "copy")
    assert (tree.root / "tests" / "faults" / Path(__file__).name).is_file()
    assert (tree.root / "docs").is_dir()
    assert (tree.root / "README.md").is_file()
