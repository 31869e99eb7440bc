"""Verdicts on their way into the history, as they are found."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxassay.environment import environment
from mxassay.errors import MxassayError
from mxassay.suite import PropertyRecord
from mxassay.verdicts import CaseRecord, Verdict

if TYPE_CHECKING:
    from mxassay.triage.versions.history import Entry, History
    from mxassay.triage.versions.identity import Identity


class Recorder:
    """Keeps entries in a history, each in a transaction of its own; without one it does nothing.

    A history that can't be written is said once on standard error and changes no verdict.
    """

    def __init__(self, history: "History | None", command: str) -> None:
        self._history, self.command = history, command
        self._identities: dict[str, Identity] = {}
        self._environment = environment() if history else {}

    def keep(self, entries: "list[Entry]") -> None:
        """Add them all, or none where the process is killed."""
        if self._history is None or not entries:
            return
        try:
            self._history.add(replace(entry, command=self.command, environment=self._environment) for entry in entries)
        except MxassayError as error:
            print(f"mxassay: {error}; verdicts are not kept from here on", file=sys.stderr)
            self._history = None

    def case(self, spec: str | None, record: CaseRecord, profile: str, counts: dict[str, int]) -> None:
        """Keep the verdict on a case. `spec`: the kernel as the command line names it, None for our own."""
        if self._history is None:
            return
        from mxassay.triage.versions.history import Entry

        who = self.identity(spec, record.kernel)
        entry = Entry(
            command=self.command, kernel=who.kernel, place=who.place, kernel_hash=who.kernel_hash,
            revision=who.revision, dirty=who.dirty, device=record.device, profile=profile, property=record.property,
            shape=",".join(map(str, record.shape)), plan=record.plan, dialect=record.dialect,
            result=record.verdict.value, outputs=record.outputs, wrong=record.bit_differences, counts=counts,
            seconds=record.seconds + record.compile_seconds, message=record.message,
        )  # fmt: skip
        self.keep([entry])

    def properties(
        self, spec: str | None, records: list[PropertyRecord], profile: str, device: str, dialect: str
    ) -> None:
        """Keep the verdict on each property that applies."""
        if self._history is None:
            return
        from mxassay.triage.versions.history import Entry

        who = self.identity(spec, "mxassay.optimized:matmul")
        self.keep(
            [
                Entry(
                    command=self.command, kernel=who.kernel, place=who.place, kernel_hash=who.kernel_hash,
                    revision=who.revision, dirty=who.dirty, device=device, profile=profile, property=record.property,
                    dialect=dialect, result=record.verdict.value, seconds=record.seconds, message=record.message,
                )
                for record in records
                if record.verdict is not Verdict.UNSUPPORTED
            ]
        )  # fmt: skip

    def fault(self, fault_id: str, result: str, seconds: float, message: str, profile: str = "") -> None:
        """Keep what became of a planted fault: killed, survived or equivalent, or, of its diagnosis, right or wrong."""
        if self._history is None:
            return
        from mxassay.triage.versions.history import Entry

        who = self.identity(None, "mxassay.optimized:matmul")
        self.keep(
            [
                Entry(
                    command=self.command, kernel=who.kernel, place=who.place, kernel_hash=who.kernel_hash,
                    revision=who.revision, dirty=who.dirty, profile=profile, property=fault_id, result=result,
                    seconds=seconds, message=message,
                )
            ]
        )  # fmt: skip

    def identity(self, spec: str | None, name: str) -> "Identity":
        """Who the kernel is, found once. `name`: what it is called where `spec` is None."""
        found = self._identities.get(spec or name)
        if found is None:
            from mxassay.triage.versions.identity import identity_of

            found = self._identities[spec or name] = identity_of(spec or name, file_of(spec))
        return found


def keep_properties(
    tests: list[dict[str, Any]], kernel: dict[str, Any], dialect: str, profile: str, named: str | None
) -> None:
    """Keep what a run of pytest says about properties, those alone of which it ran a test.

    tests: as the pytest plugin writes them down. kernel: attributes of `mxassay.triage.versions.identity.Identity`, and
    the device. named: the file that was asked for.
    """
    from mxassay.suite import by_property
    from mxassay.triage.versions.history import Entry

    records = [record for record in by_property(tests) if record.verdict is not Verdict.UNSUPPORTED]
    if not records:
        return
    options = argparse.Namespace(no_history=False, history=named, command="pytest")
    with recording(options) as recorder:
        recorder.keep(
            [
                Entry(
                    command="pytest", **kernel, profile=profile, dialect=dialect, property=record.property,
                    result=record.verdict.value, seconds=record.seconds, message=record.message,
                )
                for record in records
            ]
        )  # fmt: skip


def file_of(spec: str | None) -> Path | None:
    """The file or folder that holds a kernel, as far as it is known once the kernel is loaded."""
    if spec is None:
        import mxassay.optimized

        return Path(mxassay.optimized.__file__).parent
    where = spec.partition(":")[0]
    if Path(where).is_file():
        return Path(where)
    module = sys.modules.get(where)
    return Path(module.__file__) if module is not None and module.__file__ else None


@contextmanager
def recording(options: argparse.Namespace) -> Iterator[Recorder]:
    """A recorder for the history that `--history`, `--no-history` and MXASSAY_HISTORY name."""
    if options.no_history:
        yield Recorder(None, options.command)
        return
    from mxassay.triage.versions.history import History, default_path

    try:
        history = History(Path(options.history) if options.history else default_path())
    except MxassayError as error:
        if options.history:  # who names a file wants to know at once
            raise
        print(f"mxassay: {error}; verdicts are not kept", file=sys.stderr)
        yield Recorder(None, options.command)
        return
    with history:
        yield Recorder(history, options.command)
