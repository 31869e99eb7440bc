"""Faults of Triton kernels: a missing mask, a view overrun, a partial that nobody wrote."""

import re

import pytest
import torch
from triton_kernels import copy, copy_rows, copy_without_mask, histogram, reduce_partials

from mxassay import gfx950
from mxassay.gfx950 import MemoryFault, Options
from mxassay.gfx950.checks import Checks


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def checked(checks, launch):
    with checks, gfx950.emulated(Options(observer=checks)):
        launch()
    return checks.findings


def line_of(function, text):
    lines = function.fn.__code__.co_firstlineno
    source = function.src.splitlines()
    return lines + 1 + next(i for i, line in enumerate(source) if text in line)


def test_a_missing_mask_reads_past_the_tensor():
    x, y, checks = torch.randn(1000), torch.empty(1000), Checks()
    with pytest.raises(MemoryFault):
        checked(checks, lambda: copy_without_mask[(4,)](x, y, 1000, BLOCK=256))
    (finding,) = checks.findings
    assert (finding.check, finding.kernel) == ("bounds", "copy_without_mask")
    assert finding.source == ("triton_kernels.py", line_of(copy_without_mask, "tl.load"))
    assert re.search(r"a load must stay inside a buffer, .* past the end of x of 4000 bytes", finding.explanation)


def test_a_missing_mask_on_a_view_reads_its_neighbours():
    storage, y, checks = torch.randn(1024), torch.empty(1000), Checks()
    (finding,) = checked(checks, lambda: copy_without_mask[(4,)](storage[:1000], y, 1000, BLOCK=256))
    assert (finding.check, finding.buffer) == ("views", "x")
    assert finding.source == ("triton_kernels.py", line_of(copy_without_mask, "tl.load"))
    assert finding.explanation == (
        "a load must stay inside the elements of x, not reach byte 4000 of the storage of 4096 bytes that it shares "
        "with others"
    )
    assert (y == storage[:1000]).all()
    assert not checked(Checks(), lambda: copy[(4,)](storage[:1000], y, 1000, BLOCK=256))


def test_rows_of_a_view_read_as_if_they_touched():
    """`x[:, :k]` keeps the stride of its parent; a kernel that takes k for it walks into the gaps."""
    parent, y = torch.randn(8, 40), torch.empty(8, 32)
    right, wrong = Checks(), Checks()
    assert not checked(right, lambda: copy_rows[(8,)](parent[:, :32], y, 32, 40, BLOCK=32))
    assert (y == parent[:, :32]).all()
    (finding,) = checked(wrong, lambda: copy_rows[(8,)](parent[:, :32], y, 32, 32, BLOCK=32))
    assert finding.check == "views"
    assert finding.explanation.startswith("a load must stay inside the elements of x, not reach byte 128 of")


def test_a_store_into_a_neighbour():
    x, storage = torch.randn(256), torch.zeros(2, 200)
    (finding,) = checked(Checks(), lambda: copy[(1,)](x, storage[0], 256, BLOCK=256))
    assert (finding.check, finding.buffer) == ("views", "y")
    assert finding.explanation.startswith("a store must stay inside the elements of y, not reach byte 800 of")


def test_two_views_of_one_storage_are_both_arguments():
    storage = torch.randn(512)
    assert not checked(Checks(), lambda: copy[(1,)](storage[:200], storage[256:456], 200, BLOCK=256))
    findings = checked(Checks(), lambda: copy[(1,)](storage[:200], storage[256:456], 220, BLOCK=256))
    assert [finding.check for finding in findings] == ["views", "views"]
    assert all("the elements of x and y, not reach byte" in finding.explanation for finding in findings)


def partials_of(written):
    """A workspace that `torch.empty` made, its first `written` splits filled by a kernel."""
    source, partials = torch.randn(written * 300), torch.empty(4, 300)
    copy[(written * 2,)](source, partials, written * 300, BLOCK=256)
    return source, partials


def test_a_partial_that_nobody_wrote():
    checks, y = Checks(), torch.empty(300)

    def run():
        _, partials = partials_of(3)
        reduce_partials[(2,)](partials, y, 4, 300, BLOCK=256)

    (finding,) = checked(checks, run)
    assert (finding.check, finding.kernel, finding.buffer) == ("uninit-memory", "reduce_partials", "partials")
    assert finding.source == ("triton_kernels.py", line_of(reduce_partials, "tl.load"))
    assert finding.explanation.startswith("memory must be written before it is read and its value is stored (")


def test_partials_that_are_all_written():
    y = torch.empty(300)

    def run():
        source, partials = partials_of(4)
        reduce_partials[(2,)](partials, y, 4, 300, BLOCK=256)
        assert torch.allclose(y, source.view(4, 300).sum(0), atol=1e-5)

    assert not checked(Checks("all"), run)


@pytest.mark.parametrize(
    "fill",
    [
        lambda t: t.zero_(),
        lambda t: t.copy_(torch.ones(300)),
        lambda t: t.normal_(),
        lambda t: torch.add(torch.ones(300), 1, out=t),
        lambda t: (t[:100].fill_(1), t[100:].fill_(2)),
        lambda t: t.view(3, 100).t().fill_(3),
        lambda t: t.__setitem__(slice(None), 5.0),
    ],
)
def test_what_the_host_writes_counts_as_written(fill):
    def run():
        x, y = torch.empty(300), torch.empty(300)
        fill(x)
        copy[(2,)](x, y, 300, BLOCK=256)

    assert not checked(Checks(), run)


@pytest.mark.parametrize(
    ("fill", "byte"),
    [
        (lambda t: None, 0),
        (lambda t: t[:100].fill_(1), 400),
        (lambda t: t[::2].fill_(1), 4),
        (lambda t: t.view(10, 30), 0),
    ],
)
def test_what_the_host_does_not_write_counts_as_unwritten(fill, byte):
    def run():
        x, y = torch.empty(300), torch.empty(300)
        run.address = x.data_ptr()
        fill(x)
        copy[(2,)](x, y, 300, BLOCK=256)

    (finding,) = checked(Checks(), run)
    assert (finding.check, finding.buffer) == ("uninit-memory", "x")
    assert (finding.address - run.address) % 64 == byte % 64


def test_a_buffer_that_died_does_not_speak_for_its_successor():
    def run():
        for _ in range(20):
            torch.empty(300)
            x, y = torch.ones(300), torch.empty(300)
            copy[(2,)](x, y, 300, BLOCK=256)

    assert not checked(Checks(), run)


def test_a_buffer_can_be_declared_undefined_or_written_by_hand():
    x, y, checks = torch.ones(300), torch.zeros(300), Checks()
    checks.undefined(x)
    checks.written(x[:200])
    with gfx950.emulated(Options(observer=checks)):
        copy[(2,)](x, y, 200, BLOCK=256)
        assert checks.findings == []
        copy[(2,)](x, y, 201, BLOCK=256)
    assert [finding.check for finding in checks.findings] == ["uninit-memory"]


def test_an_atomic_into_what_nobody_zeroed():
    x = torch.randint(0, 16, (200,), dtype=torch.int32)

    def run(make):
        histogram[(1,)](x, make(16, dtype=torch.int32), 200, BLOCK=256)

    assert not checked(Checks(), lambda: run(torch.zeros))
    (finding,) = checked(Checks(), lambda: run(torch.empty))
    assert (finding.check, finding.buffer) == ("uninit-memory", "y")
    assert finding.source == ("triton_kernels.py", line_of(histogram, "atomic_add"))


def test_elements_of_an_output_that_nobody_wrote():
    checks = Checks()
    with checks, gfx950.emulated(Options(observer=checks)):
        y = torch.empty(2, 300)
        assert checks.unwritten(y) == 600
        copy[(2,)](torch.ones(300), y[0], 290, BLOCK=256)
        assert (checks.unwritten(y), checks.unwritten(y[0]), checks.unwritten(y[0, :290])) == (310, 10, 0)
        y[1] = 0
        assert checks.unwritten(y) == 10
    assert checks.unwritten(torch.ones(3)) == 0
