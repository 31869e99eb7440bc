"""A process that keeps verdicts as fast as it can, and says which of its transactions have ended.

python history_writer.py FILE NAME COUNT: prints the number of each transaction of two verdicts once it is committed.
"""

import sys
from pathlib import Path

from mxassay.triage.versions.history import Entry, History

place, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with History(place) as history:
    for number in range(count):
        history.add(
            Entry("check", name, f"{number}.{half}", "PASS", environment={"number": str(number % 7)}) for half in "ab"
        )
        print(number, flush=True)
