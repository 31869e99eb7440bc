"""The operators of AMD's pseudocode on typed values."""

from pcode_values import (
    Value,
    add,
    boolean,
    divide,
    equal,
    less,
    multiply,
    negate,
    number_of,
)


def combine(operator: str, a: Value, b: Value) -> Value:
    if operator == "**":
        return Value(a.kind, a.width, 0, 0, number_of(a) ** min(max(b.read(), -6000), 6000))
    if a.is_float and b.is_float:
        return combine_floats(operator, a, b)
    if a.is_float or b.is_float:
        raise TypeError(f"{a.kind} {operator} {b.kind}")
    match operator:
        case "<":
            return boolean(a.read() < b.read())
        case ">":
            return boolean(a.read() > b.read())
        case "<=":
            return boolean(a.read() <= b.read())
        case ">=":
            return boolean(a.read() >= b.read())
        case "==":
            return boolean(a.read() == b.read())
        case "!=" | "<>":
            return boolean(a.read() != b.read())
        case "<<":
            return Value(a.kind, a.width, a.number << b.read())
        case ">>":
            return Value(a.kind, a.width, a.read() >> b.read())
    kind, width = ("I" if a.kind == b.kind == "I" else "U"), max(a.width, b.width)
    x, y = a.number, b.number
    match operator:
        case "+":
            return Value(kind, width, x + y)
        case "-":
            return Value(kind, width, x - y)
        case "*":
            return Value(kind, width, x * y)
        case "&":
            return Value(kind, width, x & y)
        case "|":
            return Value(kind, width, x | y)
        case "^":
            return Value(kind, width, x ^ y)
    raise TypeError(f"integer operator {operator}")


def combine_floats(operator: str, a: Value, b: Value) -> Value:
    match operator:
        case "+":
            return add(a, b)
        case "-":
            return add(a, negate(b))
        case "*":
            return multiply(a, b)
        case "/":
            return divide(a, b)
        case "<":
            return boolean(less(a, b))
        case ">":
            return boolean(less(b, a))
        case "<=":
            return boolean(less(a, b) or equal(a, b))
        case ">=":
            return boolean(less(b, a) or equal(a, b))
        case "==":
            return boolean(equal(a, b))
        case "!=":
            return boolean(not equal(a, b))
        case "<>":
            return boolean(less(a, b) or less(b, a))
    raise TypeError(f"float operator {operator}")
