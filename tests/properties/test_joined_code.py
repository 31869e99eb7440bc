"""Machine code of a joined sum: what the check of scopes, waits and meetings sees, on right code and on wrong."""

import pytest

from mxassay.gfx950.assembler import KernelText, assemble, module
from mxassay.gfx950.codeobject import load_code_object
from mxassay.properties.checks import PropertyError
from mxassay.properties.test_joined_sums import assert_arrives

RIGHT = """buffer_store_dword v1, v2, s[8:11], 0 offen sc0 sc1
s_waitcnt vmcnt(0)
s_barrier
global_atomic_add v3, v4, v5, s[2:3] sc0
s_waitcnt vmcnt(0)
buffer_load_dword v6, v2, s[8:11], 0 offen sc0 sc1
s_waitcnt vmcnt(0)
s_endpgm"""


def code(text):
    loaded = load_code_object(assemble(module(KernelText("joined", text))))
    return loaded.kernel("joined")


def test_right_code_passes():
    assert_arrives(code(RIGHT), "right")
    assert_arrives(code(RIGHT.replace("s_waitcnt vmcnt(0)\ns_barrier", "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_barrier")), "")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "offen sc0 sc1\ns_waitcnt vmcnt(0)\ns_barrier",
            "offen sc0\ns_waitcnt vmcnt(0)\ns_barrier",
            "the store of a",
        ),
        ("offen sc0 sc1\ns_waitcnt vmcnt(0)\ns_end", "offen sc1\ns_waitcnt vmcnt(0)\ns_end", "the load of a partial"),
        ("s_waitcnt vmcnt(0)\ns_barrier", "s_waitcnt vmcnt(1)\ns_barrier", "each wave must wait for its stores"),
        ("s_waitcnt vmcnt(0)\ns_barrier", "s_waitcnt lgkmcnt(0)\ns_barrier", "each wave must wait for its stores"),
        ("s_waitcnt vmcnt(0)\ns_barrier", "s_barrier\ns_waitcnt vmcnt(0)", "waves must meet between their waits"),
        ("s_barrier\n", "", "waves must meet between their waits"),
        ("global_atomic_add v3", "global_atomic_sub v3", "workgroups must be counted at one place, not at 0"),
        ("buffer_load_dword v6, v2, s[8:11], 0 offen sc0 sc1\n", "", "partials must be written before the count and"),
    ],
)
def test_wrong_code_is_seen(old, new, words):
    assert RIGHT.count(old) == 1
    with pytest.raises(PropertyError, match=words):
        assert_arrives(code(RIGHT.replace(old, new)), "wrong")
