"""Which commit changed what a kernel computes: `git bisect run`, in a repository that borrows the user's objects."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mxassay.errors import ContractError, MxassayError, UnsupportedError
from mxassay.triage.versions.compare import Bench, Compared, UntestableError
from mxassay.triage.versions.repository import Repository, environment_of_git, git
from mxassay.triage.versions.version import Versions

_GOOD, _BAD, _SKIP = 0, 1, 125  # what `git bisect run` reads in an exit status
_LONGEST_SOCKET = 100  # a socket's path has 108 bytes at most

# Runs as the command of `git bisect run`: asks the process that waits behind the socket, and ends as it is told.
_STEP = """
import socket, subprocess, sys
commit = subprocess.run(["git", "rev-parse", "BISECT_HEAD"], capture_output=True, check=True).stdout
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    line.sendall(commit)
    sys.exit(int(line.recv(16) or 128))
"""


@dataclass(frozen=True)
class Step:
    """What was found about one commit.

    Attributes:
        status: good, bad or skipped.
        change: what became of the kernel since GOOD, or why the commit was skipped.
        cached: whether a commit with the same kernel had been tried before.
    """

    commit: str
    subject: str
    status: str
    change: str
    words: str
    cached: bool = False


@dataclass(frozen=True, eq=False)
class Bisected:
    """The outcome.

    Attributes:
        first_bad: the commit; None where skipped commits leave several.
        suspects: the commits that may be it, where there are several.
        steps: in the order in which they were tried, GOOD and BAD first.
        compared: the first bad commit against its parent, or against GOOD where the parent can't be tried.
        notes: what a reader must know about `compared`.
    """

    first_bad: str | None
    suspects: tuple[str, ...]
    steps: tuple[Step, ...]
    compared: Compared | None
    notes: tuple[str, ...] = ()


@dataclass(eq=False)
class Bisection:
    """Finds the first commit between two at which a kernel is worse than at the good one.

    "Worse" is what `mxassay.triage.versions.judging` says: wrong, another contract, or wrong under a new plan. Commits
    whose kernel does not open are skipped. `told` hears of each step.
    """

    versions: Versions
    bench: Bench
    told: Callable[[Step], None] = lambda step: None
    _steps: list[Step] = field(default_factory=list)

    def between(self, good: str, bad: str) -> Bisected:
        """Bisect from the commit `good` to the commit `bad`.

        Raises ContractError where GOOD or BAD can't be tried, or BAD is no worse than GOOD.
        """
        repository = self._repository
        self._steps = []
        try:
            self._good = self.versions.revision(good)
            self.bench.examined(self._good)
        except (UntestableError, UnsupportedError) as error:
            raise ContractError(f"GOOD must be testable, not so: {error}; name another commit") from error
        self._note(Step(good, self._good.subject, "good", "", "what the others are compared with"))
        last = self._step(bad)
        if last.status == "skipped":
            raise ContractError(f"BAD must be testable, not so: {last.words}; name another commit")
        if last.status == "good":
            raise ContractError(
                f"BAD must be worse than GOOD, not {last.change}; nothing that these cases show happened between "
                f"{good[:10]} and {bad[:10]}; try other --shapes"
            )
        with tempfile.TemporaryDirectory(prefix="mxassay-bisect-") as folder:
            borrowed = repository.borrowed(Path(folder, "repository"))
            git(borrowed.root, "update-ref", "--no-deref", "HEAD", bad)  # git bisect wants one
            git(borrowed.root, "bisect", "start", "--no-checkout", bad, good)
            if self._run(borrowed):
                first: str | None = git(borrowed.root, "rev-parse", "refs/bisect/bad")
            else:
                first = None
            suspects = self._left(borrowed) if first is None else ()
        if first is None:
            return Bisected(None, suspects, tuple(self._steps), None)
        compared, notes = self._triaged(first)
        return Bisected(first, (), tuple(self._steps), compared, notes)

    @property
    def _repository(self) -> Repository:
        assert self.versions.repository is not None
        return self.versions.repository

    def _run(self, borrowed: Repository) -> bool:
        """True where `git bisect run` found one commit, False where skipped ones leave several.

        Raises MxassayError where git gives up for another reason; its words are in the message.
        """
        place = tempfile.mkdtemp(prefix="mxassay-")
        if len(place) > _LONGEST_SOCKET - 10:
            shutil.rmtree(place)
            place = tempfile.mkdtemp(prefix="mxassay-", dir="/tmp")
        script = Path(place, "step.py")
        script.write_text(_STEP, encoding="utf-8")
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.bind(os.path.join(place, "line"))
                line.listen()
                line.settimeout(0.05)
                with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
                    words = [
                        "git",
                        "bisect",
                        "run",
                        sys.executable,
                        "-I",
                        "-S",
                        str(script),
                        os.path.join(place, "line"),
                    ]
                    process = subprocess.Popen(
                        words, cwd=borrowed.root, env=environment_of_git(), stdin=subprocess.DEVNULL, stdout=said,
                        stderr=said,
                    )  # fmt: skip
                    try:
                        self._answer(line, process)
                    finally:
                        if process.poll() is None:
                            process.kill()
                        process.wait()
                    said.seek(0)
                    text = said.read()
        finally:
            shutil.rmtree(place)
        if process.returncode == 0:
            return True
        if "only 'skip'ped commits left" in text or "could be any of" in text:
            return False
        raise MxassayError(f"git bisect must end, but gave up: {text.strip()}")

    def _answer(self, line: socket.socket, process: "subprocess.Popen[bytes]") -> None:
        while process.poll() is None:
            try:
                asked, _ = line.accept()
            except TimeoutError:
                continue
            with asked:
                asked.settimeout(None)
                commit = asked.makefile().readline().strip()
                status = {"good": _GOOD, "bad": _BAD, "skipped": _SKIP}[self._step(commit).status]
                asked.sendall(str(status).encode())

    def _step(self, commit: str) -> Step:
        subject = self._repository.subject(commit)
        try:
            version = self.versions.revision(commit)
        except UnsupportedError as error:
            return self._note(Step(commit, subject, "skipped", "does not hold the kernel", str(error)))
        known = self.bench.known(version)
        try:
            found = self.bench.compared(self._good, version).comparison
        except UntestableError as error:
            return self._note(Step(commit, subject, "skipped", "does not open", str(error), known))
        status = "bad" if found.wrong else "good"
        return self._note(Step(commit, subject, status, found.change.value, found.words, known))

    def _note(self, step: Step) -> Step:
        self._steps.append(step)
        self.told(step)
        return step

    def _triaged(self, first: str) -> tuple[Compared, tuple[str, ...]]:
        candidate = self.versions.revision(first)
        parent = self._repository.parent(first)
        if parent is None:
            note = "compared with GOOD, since the commit has no parent"
        else:
            try:
                return self.bench.compared(self.versions.revision(parent), candidate), ()
            except (UntestableError, UnsupportedError) as error:
                note = f"compared with GOOD, since the parent {parent[:10]} can't be tried: {error}"
        return self.bench.compared(self._good, candidate), (note,)

    def _left(self, borrowed: Repository) -> tuple[str, ...]:
        """The commits that may be the first bad one."""
        goods = git(borrowed.root, "for-each-ref", "--format=^%(refname)", "refs/bisect/good-*").split()
        return tuple(git(borrowed.root, "rev-list", "--reverse", "refs/bisect/bad", *goods).split())
