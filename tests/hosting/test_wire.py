"""Messages between processes: what goes in comes out, and nothing else is believed."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.hosting import wire


def _through_a_pipe(header, blobs):
    read_end, write_end = os.pipe()
    try:
        wire.send(write_end, header, blobs)
        os.close(write_end)
        return wire.receive(wire.reader(read_end))
    finally:
        os.close(read_end)


@given(
    st.dictionaries(st.text(max_size=5).filter(lambda key: key != "blobs"), st.integers()),
    st.lists(st.binary(), max_size=4),
)
def test_a_message_arrives(header, blobs):
    assert _through_a_pipe(header, blobs) == (header, blobs)


DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.uint8,
    torch.int64,
    torch.bool,
    torch.float8_e8m0fnu,
    torch.float4_e2m1fn_x2,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:], lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:0]])
def test_a_tensor_keeps_bits_layout_and_surroundings(dtype, view):
    whole = torch.arange(96, dtype=torch.uint8).reshape(4, 24).view(dtype)
    tensor = view(whole)
    copy = wire.rebuild(wire.describe(tensor), wire.storage_bytes(tensor))
    assert (copy.dtype, copy.shape, copy.stride(), copy.storage_offset()) == (
        tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(),
    )  # fmt: skip
    assert wire.storage_bytes(copy) == wire.storage_bytes(whole)
    assert copy.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()


def test_a_scalar_and_an_empty_tensor():
    assert wire.rebuild(wire.describe(torch.tensor(5)), wire.storage_bytes(torch.tensor(5))) == 5
    empty = torch.empty(0, 3)
    assert wire.rebuild(wire.describe(empty), wire.storage_bytes(empty)).shape == (0, 3)


@pytest.mark.parametrize(
    "change",
    [{"shape": [5, 4]}, {"offset": 1}, {"offset": -1}, {"stride": [5, 1]}, {"stride": [-4, 1]}, {"dtype": "save"}],
)
def test_a_tensor_that_its_bytes_cannot_hold_is_refused(change):
    tensor = torch.zeros(4, 4)
    with pytest.raises(ValueError, match=r"^a (tensor must fit into its 64 bytes|dtype must be one of torch's), not"):
        wire.rebuild({**wire.describe(tensor), **change}, wire.storage_bytes(tensor))


@pytest.mark.parametrize(
    ("sent", "error"), [(b"", EOFError), (b"\xff" * 8, ValueError), (b"\2" + b"\0" * 7 + b"[]", ValueError)]
)
def test_what_is_no_message_is_refused(sent, error):
    read_end, write_end = os.pipe()
    os.write(write_end, sent)
    os.close(write_end)
    try:
        with pytest.raises(error):
            wire.receive(wire.reader(read_end))
    finally:
        os.close(read_end)
