"""`python -m mxassay` is `mxassay`."""

import sys

from mxassay.cli import main

sys.exit(main())
