"""Options of the active card reach launches that bring none of their own."""

import pytest

pytest.importorskip("triton")

from mxassay.gfx950 import Options, emulated
from mxassay.gfx950.dispatch import card_options


def test_options_follow_the_active_card():
    assert card_options() == Options()
    with emulated(Options(fill=7)):
        assert card_options().fill == 7
        with emulated(Options(fill=9)):
            assert card_options().fill == 9
        assert card_options().fill == 7
    assert card_options() == Options()
