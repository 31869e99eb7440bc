"""Makes the witness modules of this folder importable: pytest's importlib mode adds nothing to sys.path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
