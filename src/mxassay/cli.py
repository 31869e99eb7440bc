"""The command line. Parsing loads neither torch nor triton; each command imports what it needs when it runs."""

import argparse
import atexit
import os
import sys
from collections.abc import Callable, Sequence

import mxassay
from mxassay.errors import MxassayError, UnsupportedError
from mxassay.kernels import Shape
from mxassay.verdicts import ExitCode


def _shape(text: str) -> Shape:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"a shape must be M,N,K with positive integers, not {text}")
    m, n, k = (int(part) for part in parts)
    return m, n, k


def _tile(text: str) -> tuple[int, int]:
    parts = text.split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"a tile must be MxN with positive integers, not {text}")
    return int(parts[0]), int(parts[1])


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number must be 1 or more, not {text}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"a number must be 0 or more, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"a length of time must be a number above 0, not {text}")
    return seconds


def _shapes_word(text: str) -> str | Shape:
    return text if text in ("leaderboard", "tests", "edges", "all") else _shape(text)


def _pair(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"coordinates must be integers with commas, not {text}")
    return tuple(int(part) for part in parts)


def _two(text: str) -> tuple[int, ...]:
    pair = _pair(text)
    if len(pair) != 2:
        raise argparse.ArgumentTypeError(f"a matrix must be N,K, not {text}")
    return pair


def parser() -> argparse.ArgumentParser:
    """The argument parser of `mxassay`."""
    top = argparse.ArgumentParser(
        prog="mxassay",
        description="Is this MXFP4 GEMM kernel for AMD MI355X right, and if it isn't, why not?",
    )
    top.add_argument("--version", action="version", version=f"mxassay {mxassay.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="run a kernel and hold every output bit against the reference")
    check.add_argument(
        "kernel",
        nargs="?",
        help="module:attr, path.py:attr, path.py (a contest file) or path.co; our own kernel when left out",
    )
    check.add_argument("--abi", help="mxfp4-gemm, gpumode or aiter-a4w4; told from the name by default")
    check.add_argument("--device", default="auto", help="auto, emulated, interpreter, cuda or mi355x (default: auto)")
    check.add_argument("--aiter", metavar="PATH", help="root of an aiter checkout, for kernels that import aiter")
    check.add_argument("--tile", type=_tile, metavar="MxN", help="tile of a code object whose name does not say it")
    check.add_argument("--limit-seconds", type=float, default=600.0, help="for each call of a contest file (600)")
    check.add_argument("--limit-gib", type=float, default=8.0, help="memory of a contest file's process (8)")
    check.add_argument(
        "--shapes",
        nargs="+",
        type=_shapes_word,
        metavar="SHAPE",
        help="leaderboard, tests, edges, all, or M,N,K (default: all; for a code object, by its tile)",
    )
    check.add_argument("--dialect", help="quantization dialect it implements (default: what it declares, else even)")
    check.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    check.add_argument(
        "--profile",
        choices=("quick", "thorough", "nightly"),
        help="also run the property suite, with this many examples (see docs/properties.md)",
    )
    check.add_argument(
        "--multiples",
        type=_shape,
        metavar="M,N,K",
        help="it takes multiples of these (default: what it declares)",
    )
    check.add_argument(
        "--database", metavar="PLACE", help="with --profile: failing examples, a folder or redis://HOST/DB"
    )
    check.add_argument("--report", metavar="FILE.html", help="also write the run, and why it fails, as one page")
    check.add_argument("--save", metavar="DIR", help="write each failing case here, for `mxassay triage` and `replay`")
    check.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    _add_history(check)
    check.set_defaults(run="mxassay.commands.check")

    layout = commands.add_parser("layout", help="explain a layout, or where one element of it lies")
    layout.add_argument("name", nargs="?", help="a layout's name; all names when left out")
    layout.add_argument(
        "--at",
        type=_pair,
        metavar="R,C",
        help="one element: in the layout's own axes (bytes, blocks), or with --matrix",
    )
    where = layout.add_mutually_exclusive_group()
    where.add_argument(
        "--shape",
        type=_pair,
        metavar="R,C",
        help="shape of the tensor in the layout's own axes; the smallest that holds the element when left out",
    )
    where.add_argument(
        "--matrix", type=_two, metavar="N,K", help="count in codes instead: rows and K of the matrix, --at is row,k"
    )
    layout.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    layout.set_defaults(run="mxassay.commands.layout")

    isa = commands.add_parser("isa", help="what a gfx950 code object needs, before anything runs")
    isa.add_argument("kernel", nargs="?", help="a .co or .hsaco file; with --shape, a kernel as in `mxassay check`")
    isa.add_argument("--name", help="one kernel of the file; all when left out")
    isa.add_argument("--shape", type=_shape, metavar="M,N,K", help="run a GEMM and count what its kernels execute")
    isa.add_argument("--abi", help="with --shape: mxfp4-gemm or aiter-a4w4; told from the name by default")
    isa.add_argument("--hazards", action="store_true", help="also look for missing wait states")
    isa.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    isa.set_defaults(run="mxassay.commands.isa")

    probe = commands.add_parser("probe", help="ask a card what public sources leave open, and record the answers")
    probe.add_argument("--device", default="emulated", help="emulated or mi355x (default: emulated)")
    probe.add_argument("--out", metavar="FILE", help="write the answers here, as in probe.json")
    probe.add_argument("--compare", metavar="FILE", help="an earlier file of answers to compare with")
    probe.add_argument("--pins", metavar="FILE", help="write what the answers settle, for the emulator to follow")
    probe.add_argument("--only", nargs="+", metavar="ID", help="ids, or their first words, as --list shows them")
    probe.add_argument("--list", action="store_true", help="print the questions and ask none")
    probe.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    probe.set_defaults(run="mxassay.commands.probe")

    run = commands.add_parser(
        "run",
        help="run a script or pytest, written for a GPU, on the emulated MI355X",
        usage="mxassay run [--checks NAMES] [--aiter PATH] [--list-checks] SCRIPT.py ARGS | -m MODULE ARGS",
    )
    run.add_argument("--aiter", metavar="PATH", help="root of an aiter checkout to import as aiter")
    run.add_argument(
        "--checks",
        default="default",
        metavar="NAMES",
        help="what to watch: default, all, none, or names with commas (see --list-checks)",
    )
    run.add_argument("--list-checks", action="store_true", help="print the checks and run nothing")
    run.set_defaults(run="mxassay.commands.run")

    faults = commands.add_parser(
        "faults", help="plant faults in copies of our own code, and see whether the suite does"
    )
    faults.add_argument(
        "--profile", choices=("quick", "thorough"), default="quick", help="of the suite (default: quick)"
    )
    faults.add_argument(
        "--device", choices=("emulated", "cuda"), default="emulated",
        help="cuda: the faults in kernels for NVIDIA Hopper, on such a GPU (default: all others, without a GPU)",
    )  # fmt: skip
    faults.add_argument("--only", nargs="+", metavar="ID", help="these faults, or all of a class")
    faults.add_argument("--from", dest="file", metavar="FILE", help="faults of a TOML file instead of our own")
    faults.add_argument("--jobs", type=_positive, default=2, help="faults on trial at a time (default: 2)")
    faults.add_argument("--seed", type=int, default=0, help="of Hypothesis (default: 0)")
    faults.add_argument("--cache", metavar="DIR", help="where results are kept (default: the user's cache folder)")
    faults.add_argument("--fresh", action="store_true", help="run again what is kept")
    faults.add_argument("--triage", action="store_true", help="diagnose each fault instead: is the cause named?")
    faults.add_argument(
        "--minutes", type=_seconds, metavar="M", help="with --triage: begin no fault after that; the first are a sample"
    )
    faults.add_argument("--record", metavar="FILE", help="put the scores of all shipped faults into this record")
    faults.add_argument("--list", action="store_true", help="show the faults and run nothing")
    faults.add_argument("--json", action="store_true", help="print one JSON document instead of the matrix")
    _add_history(faults)
    faults.set_defaults(run="mxassay.commands.faults")

    triage = commands.add_parser(
        "triage", help="from a failure to its cause: of a case, of a kernel, or of a change between two versions"
    )
    triage.add_argument(
        "subject",
        nargs="*",
        metavar="CASE | KERNEL | BASE CANDIDATE",
        help="a case file (.json), a kernel as in `mxassay check`, or two git revisions, paths or .co files; "
        "our own kernel when left out",
    )
    _add_versions(triage)
    triage.add_argument("--quick", action="store_true", help="don't ask whether source or compiler is to blame")
    triage.add_argument(
        "--other-triton", action="append", default=[], metavar="DIR|PYTHON",
        help="ask this Triton too: a folder of `pip install --target`, or the Python of another environment",
    )  # fmt: skip
    triage.add_argument(
        "--seconds", type=_seconds, default=10.0, metavar="S", help="of processor time for each part of a search (10)"
    )
    _add_pages(triage)
    triage.set_defaults(run="mxassay.commands.triage")

    replay = commands.add_parser("replay", help="run a case file again, here")
    replay.add_argument("case", metavar="CASE", help="a case file, from `mxassay check --save` or `mxassay triage`")
    replay.add_argument("--device", default="auto", help="another device than the one it failed on")
    replay.add_argument("--script", metavar="FILE", help="write the case as a Python script instead of running it")
    replay.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    replay.set_defaults(run="mxassay.commands.replay")

    bisect = commands.add_parser("bisect", help="find the commit that changed what a kernel computes")
    bisect.add_argument("--good", required=True, metavar="REV", help="a revision that is as it should be")
    bisect.add_argument("--bad", required=True, metavar="REV", help="a later one that is not")
    _add_versions(bisect)
    _add_pages(bisect)
    bisect.set_defaults(run="mxassay.commands.bisect")

    history = commands.add_parser("history", help="when a property last passed, and how counts moved")
    history.add_argument(
        "kernel", nargs="?", help="a kernel as in `mxassay check`, or a part of its name; all by default"
    )
    history.add_argument("--property", metavar="ID", help="this property alone")
    history.add_argument(
        "--history", metavar="FILE", help="the history to read (default: MXASSAY_HISTORY, or the user's)"
    )
    history.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    history.set_defaults(run="mxassay.commands.history")

    bench = commands.add_parser("bench", help="measure every figure that we promise, beside its bar and its peer")
    bench.add_argument(
        "groups", nargs="*", metavar="GROUP", help="reference, gfx950, emulator, suite, cli, gpu (default: all)"
    )
    bench.add_argument("--repeats", type=_positive, default=5, help="of every measurement, in turn (default: 5)")
    bench.add_argument("--seed-kernel", metavar="FILE", help="a contest entry to set beside our kernels; runs it")
    bench.add_argument("--aiter", metavar="PATH", help="root of an aiter checkout whose prebuilt kernels to set beside")
    bench.add_argument("--details", action="store_true", help="also print what was counted, and what the model assumes")
    bench.add_argument("--record", metavar="FILE", help="also write the document here")
    bench.add_argument("--last", action="store_true", help="print the record that came with this version")
    bench.add_argument("--tune", type=_shape, metavar="M,N,K", help="search the plans of a shape instead")
    bench.add_argument("--device", default="auto", help="with --tune: mi355x times, emulated models (default: auto)")
    bench.add_argument("--candidates", type=_positive, default=24, help="with --tune: plans to try (default: 24)")
    bench.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    bench.set_defaults(run="mxassay.commands.bench")

    campaign = commands.add_parser("campaign", help="a sweep over many workers, which can be taken up again")
    campaign.add_argument("kernels", nargs="*", metavar="KERNEL", help="as in `mxassay check`; own (default) is ours")
    campaign.add_argument("--shapes", nargs="+", type=_shapes_word, metavar="SHAPE", help="as in check (leaderboard)")
    campaign.add_argument(
        "--dialects",
        nargs="+",
        default=[],
        metavar="NAME",
        help="of the inputs (default: what a kernel declares, or even)",
    )
    campaign.add_argument("--seeds", type=_positive, default=1, help="inputs for each case (default: 1)")
    campaign.add_argument(
        "--neighbours", type=_count, default=0, help="plans beside the own one of our kernel (default: 0)"
    )
    campaign.add_argument("--abi", help="of the kernels; told from their names by default")
    campaign.add_argument("--aiter", metavar="PATH", help="root of an aiter checkout, for kernels that import aiter")
    campaign.add_argument(
        "--device", default="auto", help="auto, emulated, interpreter, cuda or mi355x (default: auto)"
    )
    campaign.add_argument("--workers", type=_positive, help="processes on this machine (default: one a core)")
    campaign.add_argument("--engine", choices=("processes", "dask"), default="processes", help="default: processes")
    campaign.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler whose workers do the jobs")
    campaign.add_argument(
        "--history", metavar="FILE", help="where verdicts go (default: MXASSAY_HISTORY, or the user's)"
    )
    campaign.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    campaign.set_defaults(run="mxassay.commands.campaign")
    return top


def _add_history(command: argparse.ArgumentParser) -> None:
    place = command.add_mutually_exclusive_group()
    place.add_argument(
        "--history", metavar="FILE", help="keep the verdicts here (default: MXASSAY_HISTORY, or the user's)"
    )
    place.add_argument("--no-history", action="store_true", help="keep no verdicts")


def _add_versions(command: argparse.ArgumentParser) -> None:
    """What comparing and bisecting share."""
    command.add_argument("--repo", metavar="PATH", help="the git repository of the revisions (default: the one here)")
    command.add_argument(
        "--kernel", metavar="PATH:FN", help="the kernel, by its path inside the repository; our own when left out"
    )
    command.add_argument("--abi", help="mxfp4-gemm, gpumode or aiter-a4w4; told from the name by default")
    command.add_argument("--device", default="auto", help="auto, emulated, interpreter, cuda or mi355x (default: auto)")
    command.add_argument("--aiter", metavar="PATH", help="root of an aiter checkout, for kernels that import aiter")
    command.add_argument("--tile", type=_tile, metavar="MxN", help="tile of a code object whose name does not say it")
    command.add_argument(
        "--shapes", nargs="+", type=_shapes_word, metavar="SHAPE", help="leaderboard, tests, edges, all, or M,N,K"
    )
    command.add_argument("--dialect", help="quantization dialect of BASE or GOOD (default: as it declares, else even)")
    command.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    command.add_argument("--limit-seconds", type=float, default=600.0, help="for each version (600)")
    command.add_argument("--no-diagnosis", action="store_true", help="do not look for the cause of a fault")
    command.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    _add_history(command)


def _add_pages(command: argparse.ArgumentParser) -> None:
    """The files that a diagnosis can be written to."""
    command.add_argument("--report", metavar="FILE", help="also write one self-contained HTML page")
    command.add_argument(
        "--save", metavar="FILE", help="where the smallest failing case goes (.json; default: the user's data folder)"
    )
    command.add_argument("--script", metavar="FILE", help="also write it as a Python script that stands alone")


_FLAGS_OF_RUN = ("--list-checks", "--help")


def _split_program(words: list[str]) -> tuple[list[str], list[str]]:
    """What `mxassay run` takes for itself, and the program with its own options, which argparse must not see."""
    if words[:1] != ["run"]:
        return words, []
    first = 1
    while first < len(words) and words[first].startswith("--"):
        first += 1 if "=" in words[first] or words[first] in _FLAGS_OF_RUN else 2
    if words[first : first + 1] == ["-h"]:
        return words, []
    return words[:first], words[first:]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `mxassay.verdicts.ExitCode`)."""
    import importlib

    words, program = _split_program(list(sys.argv[1:] if argv is None else argv))
    options = parser().parse_args(words, argparse.Namespace(program=program))
    # Read when torch loads: waiting threads that spin make everything ten times slower on a machine that is busy.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    run: Callable[[argparse.Namespace], int] = importlib.import_module(options.run).run
    try:
        code = run(options)
        if "triton.experimental.gluon" in sys.modules:
            atexit.register(_end_quietly)
        return code
    except UnsupportedError as error:
        return _refused(options, str(error), ExitCode.UNSUPPORTED)
    except MxassayError as error:
        return _refused(options, str(error), ExitCode.USAGE)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        return ExitCode.PASS
    except Exception:
        import traceback

        traceback.print_exc()
        print(
            "mxassay: this is a fault of mxassay itself; please report it with the lines above",
            file=sys.stderr,
        )
        return ExitCode.INTERNAL


def _end_quietly() -> None:
    """Triton 3.9 reports, as Python ends, what Gluon's compiler left behind of its own; that helps nobody here."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _refused(options: argparse.Namespace, message: str, code: int) -> int:
    """Say why on standard error, and in a document where one was asked for."""
    print(f"mxassay: {message}", file=sys.stderr)
    if getattr(options, "json", False):
        from mxassay.environment import environment
        from mxassay.verdicts import Document, Verdict

        print(Document(options.command, Verdict.UNSUPPORTED, 0.0, environment(), {"message": message}).dumps())
    return code


if __name__ == "__main__":
    sys.exit(main())
