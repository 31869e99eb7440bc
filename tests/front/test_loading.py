"""What may be named as a kernel: three tensors in, one out, and words that say so where it is otherwise."""

import pytest

from mxassay.errors import ContractError, UnsupportedError
from mxassay.loading import Request, open_kernels

KERNELS = """
import functools

import triton


@triton.jit
def jitted(a):
    pass


def three(a, b, scales, *, flag=False):
    return a


def four(a, b, scales, out):
    return a


def two(a, b):
    return a


bound = functools.partial(four, out=None)
any_count = lambda *tensors: tensors[0]
number = 3
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(KERNELS)
    return str(file)


def opened(spec):
    with open_kernels(Request(spec, None, "even", "emulated")) as kernels:
        return [kernel.name for kernel in kernels]


@pytest.mark.parametrize("name", ["three", "bound", "any_count"])
def test_what_takes_three_tensors(path, name):
    assert opened(f"{path}:{name}") == [f"{path}:{name}"]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (
            "four",
            ContractError,
            (
                "must take (a_bf16, b_preshuffled, b_scales_shuffled) and return out_bf16, not take "
                "(a, b, scales, out); wrap it in a function that does"
            ),
        ),
        (
            "two",
            ContractError,
            (
                "must take (a_bf16, b_preshuffled, b_scales_shuffled) and return out_bf16, not take "
                "(a, b); wrap it in a function that does"
            ),
        ),
        (
            "jitted",
            ContractError,
            (
                "must be the function that allocates and launches, not the @triton.jit kernel; "
                "name fn(a_bf16, b_preshuffled, b_scales_shuffled) -> out_bf16"
            ),
        ),
        ("number", UnsupportedError, "must define a callable number, not int; name another one as path.py:attr"),
        (
            "absent",
            UnsupportedError,
            ("must define a callable absent, not leave it out; it has jitted, three, four, two, any_count"),
        ),
    ],
)
def test_what_does_not(path, name, kind, message):
    with pytest.raises(kind) as caught:
        opened(f"{path}:{name}")
    where = path if kind is UnsupportedError else f"{path}:{name}"
    assert str(caught.value) == f"{where} {message}"
