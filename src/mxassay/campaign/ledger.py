"""What is done: the history itself tells, so that a verdict and the note that it was found can't come apart."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxassay.campaign.job import Job, Key
from mxassay.errors import UnsupportedError
from mxassay.triage.versions.history import CAMPAIGN

if TYPE_CHECKING:
    from mxassay.triage.versions.history import Entry, History
    from mxassay.triage.versions.identity import Identity

__all__ = ["Ledger", "alone"]


class Ledger:
    """Jobs and entries of one history, in one environment (`mxassay.environment.environment`)."""

    def __init__(self, history: "History", environment: dict[str, str]) -> None:
        self._history, self._environment = history, environment
        self._identities: dict[str | None, Identity] = {}
        self.done: set[Key] = {
            self.key_of(entry)
            for entry in history.entries()
            if entry.profile.startswith(CAMPAIGN) and entry.environment == environment
        }

    def key(self, job: Job) -> Key:
        """The kernel's content counts, not its name alone: a changed kernel is another job."""
        who = self._identity(job.spec)
        shape = ",".join(map(str, job.shape))
        return (
            who.kernel, who.kernel_hash, job.device, f"{CAMPAIGN}{job.seed}", shape, job.plan_words, job.dialect
        )  # fmt: skip

    @staticmethod
    def key_of(entry: "Entry") -> Key:
        """The key of the job that an entry came from."""
        return (
            entry.kernel, entry.kernel_hash, entry.device, entry.profile, entry.shape, entry.plan, entry.dialect
        )  # fmt: skip

    def keep(self, job: Job, outcome: dict[str, Any]) -> bool:
        """Keep the verdict, in a transaction of its own; False where there is one already."""
        from mxassay.triage.versions.history import Entry

        key = self.key(job)
        if key in self.done:
            return False
        who = self._identity(job.spec)
        self._history.add([
            Entry(
                command="check", kernel=who.kernel, place=who.place, kernel_hash=who.kernel_hash, revision=who.revision,
                dirty=who.dirty, device=job.device, profile=f"{CAMPAIGN}{job.seed}", property=outcome["property"],
                shape=",".join(map(str, job.shape)), plan=job.plan_words, dialect=job.dialect,
                result=outcome["verdict"], outputs=outcome["outputs"], wrong=outcome["bit_differences"],
                seconds=outcome["seconds"] + outcome["compile_seconds"], message=outcome["message"],
                environment=self._environment,
            )
        ])  # fmt: skip
        self.done.add(key)
        return True

    def _identity(self, spec: str | None) -> "Identity":
        found = self._identities.get(spec)
        if found is None:
            from mxassay.recording import file_of
            from mxassay.triage.versions.identity import identity_of

            found = self._identities[spec] = identity_of(spec or "mxassay.optimized:matmul", file_of(spec))
        return found


@contextmanager
def alone(history: Path) -> Iterator[None]:
    """Be the only campaign that writes this history. The lock ends with the process, however it ends.

    Raises UnsupportedError where another one is at work.
    """
    with history.with_name(history.name + ".campaign").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UnsupportedError(
                f"a history must have one campaign at a time, not two: {history}; wait, or name another with --history"
            ) from error
        yield
