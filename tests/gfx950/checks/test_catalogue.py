"""Choosing checks by name."""

import pytest

from mxassay.errors import ContractError
from mxassay.gfx950.checks import CHECKS, Checks

ALWAYS = {"bounds", "endless"}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("", ALWAYS),
        ("waitcnt", ALWAYS | {"waitcnt"}),
        ("races, waitcnt", ALWAYS | {"lds-races", "waitcnt"}),
        ("uninit,-uninit-lds", ALWAYS | {"uninit-registers", "uninit-memory"}),
        ("all", set(CHECKS)),
        ("all,-bounds", set(CHECKS)),
        ("default", {name for name, info in CHECKS.items() if info.default}),
    ],
)
def test_a_list_of_names_chooses_checks(spec, names):
    assert Checks(spec).names == names


def test_an_unknown_name_is_refused():
    with pytest.raises(ContractError, match=r"^a check must be one of bounds, endless, .*, default, .*, not race$"):
        Checks("race")


def test_the_catalogue_knows_itself():
    assert all(info.name == name and info.statement for name, info in CHECKS.items())
    assert {name for name, info in CHECKS.items() if info.always} == ALWAYS
    assert not any(info.counts and info.default for info in CHECKS.values())
