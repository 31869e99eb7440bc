"""Write the pages that are made from code: spec/*.md, properties.md, planted-faults.md, and data of the explorer.

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


def pages() -> dict[str, str]:
    """The text of every generated page, by its path under docs/."""
    from mxassay.properties.catalogue import markdown
    from mxassay.properties.faults import scorecard

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
    }
    return found | {f"spec/{layout.slug(name)}.md": layout.chapter(name) for name in LAYOUTS}


def differing() -> list[str]:
    """The pages whose committed text is not what `pages` makes."""
    return [path for path, text in pages().items() if not _holds(DOCS / path, text)]


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
    for path, text in pages().items():
        (DOCS / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
