"""Inline assembly by itself: what the checks of a statement see, on our own and on wrong ones."""

from dataclasses import replace

import pytest

from mxassay.errors import UnsupportedError
from mxassay.optimized import pack
from mxassay.properties.checks import PropertyError
from mxassay.properties.test_machine_code import Statement, assert_keeps_inputs, assert_waits, statements

OURS = Statement(tuple(pack._CONVERT.value.splitlines()), tuple(pack._CONVERT_CONSTRAINTS.value.split(",")))


def test_ours_is_right():
    assert_keeps_inputs(OURS)
    assert_waits(OURS)


def test_a_result_that_may_lie_in_a_later_input_is_seen():
    constraints = ("=v", *OURS.constraints[1:])
    with pytest.raises(PropertyError, match=r"result \$0 must be an early clobber, =&v: line 1 writes it, and line 4"):
        assert_keeps_inputs(replace(OURS, constraints=constraints))
    last = ("=&v", "=&v", "=&v", "=v", *OURS.constraints[4:])
    assert_keeps_inputs(replace(OURS, constraints=last))  # nothing is read behind the last line that writes


@pytest.mark.parametrize(
    "end", [(), ("s_nop 0",), ("v_and_b32 $3, 0xff, $3", "s_nop 1")], ids=["no wait", "one state", "read at once"]
)
def test_a_reader_that_comes_too_early_is_seen(end):
    with pytest.raises(PropertyError, match="an instruction comes too early"):
        assert_waits(replace(OURS, lines=(*OURS.lines[:-1], *end)))


def test_statements_are_read_from_llvm_ir():
    ir = 'call {i32} asm sideeffect "v_mov_b32 $0, $1\\0As_nop 1", "=&v,v,~{memory}"(i32 %1)\n'
    ir += 'call void asm sideeffect "", "~{memory}"()'
    assert list(statements(ir)) == [Statement(("v_mov_b32 $0, $1", "s_nop 1"), ("=&v", "v"))]
    with pytest.raises(UnsupportedError, match=r"operands of inline assembly must be VGPRs, not =s,v: s_mov_b32"):
        list(statements('asm "s_mov_b32 $0, $1", "=s,v"'))
