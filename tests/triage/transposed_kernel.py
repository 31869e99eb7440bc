"""A product of the code that is imported, under a view of its activations, and what another Triton makes of it, as
JSON: python transposed_kernel.py OTHER"""

import json
import sys
from pathlib import Path

from mxassay.elsewhere import OtherTriton, on_interpreter
from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.strategies.matrices import ramped
from mxassay.properties.strategies.plans import plan
from mxassay.triage.blame import blame
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.rerun import again, fails, on
from mxassay.triaging import opened


def main():
    other = OtherTriton(Path(sys.argv[1]))
    subject = Subject(device="emulated")
    with opened(subject) as kernel:
        run = on(kernel)
        placement = Placement(view="transposed")
        failure = again(Failure(subject, ramped((5, 48, 320), 4), Launch(plan(3)), placement, None), run)
        version, outcome, kernels = other.compiled(failure)
        there = {"version": version, "fails": fails(outcome), "kernels": [kernel.name for kernel in kernels]}
        found = blame(failure, run, on_interpreter, changes=(), others=[other.compiled])
    print(json.dumps({"fails": fails(failure), "there": there, **vars(found)}))


if __name__ == "__main__":
    main()
