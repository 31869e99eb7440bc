"""Write the pages that are made from code: spec/*.md, properties.md, planted-faults.md, named-causes.md with its entry
in index.md, and data of the explorer.

python docs/generate.py            # write them
python docs/generate.py --check    # exit status 1 and names where a committed page differs
"""

import argparse
import json
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
if str(DOCS) not in sys.path:
    sys.path.insert(0, str(DOCS))

from chapters import (  # noqa: E402
    certificate,
    conversion,
    dialects,
    explorer,
    formats,
    layout,
    overview,
    scaled_mfma,
    sources,
    time_model,
    witnesses,
)

from mxassay.layouts import LAYOUTS  # noqa: E402

_OF_RECORDS = ("named-causes.md",)  # pages that are there only while a record of measurements ships


def pages() -> dict[str, str]:
    """The text of every generated page, by its path under docs/."""
    from mxassay.properties.catalogue import markdown
    from mxassay.properties.faults import causes, scorecard

    found = {
        "spec/index.md": overview.page(),
        "spec/formats.md": formats.page(),
        "spec/dialects.md": dialects.page(),
        "spec/conversion.md": conversion.page(),
        "spec/scaled-mfma.md": scaled_mfma.page(),
        "spec/certificate.md": certificate.page(),
        "spec/sources.md": sources.page(),
        "spec/witnesses.md": witnesses.page(),
        "spec/time-model.md": time_model.page(),
        "properties.md": markdown(),
        "planted-faults.md": scorecard.page(),
        "explorer/index.html": explorer.page(DOCS / "explorer" / "index.html"),
        "../README.md": scorecard.in_readme((DOCS.parent / "README.md").read_text(encoding="utf-8")),
    }
    if causes.RECORD.is_file():
        found["named-causes.md"] = causes.page(causes.read(causes.RECORD))
    found["index.md"] = _index((DOCS / "index.md").read_text(encoding="utf-8"), "named-causes.md" in found)
    return found | {f"spec/{layout.slug(name)}.md": layout.chapter(name) for name in LAYOUTS}


def _index(text: str, named_causes: bool) -> str:
    """The front page with an entry for named-causes.md behind planted-faults.md if there is such a page, else without.

    >>> _index("properties\\nplanted-faults\\n", True)
    'properties\\nplanted-faults\\nnamed-causes\\n'
    """
    before, after = "planted-faults\n", "planted-faults\nnamed-causes\n"
    return text.replace(after, before).replace(before, after if named_causes else before)


def differing() -> list[str]:
    """The pages whose committed text is not what `pages` makes, and one whose record is gone."""
    made = pages()
    gone = [path for path in _OF_RECORDS if path not in made and (DOCS / path).exists()]
    return [path for path, text in made.items() if not _holds(DOCS / path, text)] + gone


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed pages instead of writing them")
    parser.add_argument("--ask", action="store_true", help="first ask other people's libraries again, those installed")
    chosen = parser.parse_args()
    if chosen.ask:
        witnesses.RECORD.write_text(json.dumps(witnesses.asked(), indent=1) + "\n", encoding="utf-8")
    if chosen.check:
        stale = differing()
        for path in stale:
            print(f"docs/{path} must be what the code says, not older; run: python docs/generate.py", file=sys.stderr)
        return 1 if stale else 0
    made = pages()
    for path, text in made.items():
        (DOCS / path).write_text(text, encoding="utf-8")
    for path in _OF_RECORDS:
        if path not in made:
            (DOCS / path).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
