"""Sphinx settings. `make docs` builds with -W: a warning is an error."""

import shutil
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

project = "mxassay"
author = "the authors of mxassay"
project_copyright = "the authors of mxassay, MIT licence"
release = installed("mxassay")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "mxassay"
html_static_path = ["static"]
html_css_files = ["spec.css"]
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

_EXPLORER = Path(__file__).with_name("explorer") / "index.html"


def _copy_explorer(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir) / "explorer"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(_EXPLORER, folder / "index.html")


def setup(app: Any) -> dict[str, bool]:
    """Put the explorer, which is no page of Sphinx, beside the pages."""
    app.connect("build-finished", _copy_explorer)
    return {"parallel_read_safe": True}
