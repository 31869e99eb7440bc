"""Executes AMD's instruction pseudocode (`tinygrad.runtime.autogen.amd.cdna.str_pcode.PCODE`) on given operand bits.

    state = State({"S0": unsigned(1), "S1": unsigned(2), "D0": unsigned(0)})
    run(program_of("V_ADD_U32"), state)["D0"].bits == 3

One call is one lane (or one scalar instruction). The result says which bits of each register the text wrote
(`written`) and which of those it leaves open (`Value.loose`).
"""

from fractions import Fraction

import pcode_syntax as syntax
from pcode_arithmetic import combine
from pcode_functions import FUNCTIONS
from pcode_state import CONSTANTS, NoWitnessError, State, program_of
from pcode_syntax import TYPE
from pcode_values import (
    FORMATS,
    UndeterminedError,
    Value,
    boolean,
    convert_float,
    is_nan,
    make_float,
    negate,
    reinterpret,
    signed,
    unsigned,
    wrap_signed,
)

LETTERS = {"u": "U", "i": "I", "b": "B"}
OUTPUTS = ("D0", "D1", "S0", "VCC", "SCC", "EXEC", "M0", "PC")


def run(program: tuple, state: State) -> State:
    """Executes; returns the same state.

    Raises:
        UndeterminedError: the text doesn't say what happens for these operands.
    """
    execute(program, state)
    return state


def execute(body: tuple, state: State) -> object:
    """None, BREAK, or the Value of a `return`: what ended the body early."""
    for statement in body:
        ended = STATEMENTS[type(statement)](statement, state)
        if ended is not None:
            return ended
    return None


def do_assign(s: syntax.Assign, state: State) -> None:
    value = evaluate(s.value, state)
    if s.operator:
        value = combine(s.operator, evaluate(s.targets[0], state), value)
    for target in reversed(s.targets):
        assign(target, value, state)


def do_if(s: syntax.If, state: State) -> object:
    for condition, body in s.branches:
        if condition is None or evaluate(condition, state).truth:
            return execute(body, state)
    return None


def do_for(s: syntax.For, state: State) -> object:
    for i in range(evaluate(s.first, state).read(), evaluate(s.last, state).read() + 1):
        state.variables[s.variable] = signed(i)
        ended = execute(s.body, state)
        if ended is not None:
            return None if ended is BREAK else ended
    return None


def do_declare(s: syntax.Declare, state: State) -> None:
    if s.name == "S":  # V_MAD_MIX reads its sources as an array
        state.variables["S"] = [state[f"S{i}"] for i in range(3)]
        return
    kind = {"U": "U", "I": "I", "B": "B", "F": f"f{s.width}"}[s.kind]
    empty = Value(kind, s.width, 0)
    state.variables[s.name] = empty if s.count is None else [empty] * s.count


def do_lambda(s: syntax.Lambda, state: State) -> None:
    state.functions[s.name] = s


BREAK = object()
STATEMENTS = {
    syntax.Assign: do_assign,
    syntax.If: do_if,
    syntax.For: do_for,
    syntax.Declare: do_declare,
    syntax.Break: lambda s, state: BREAK,
    syntax.Return: lambda s, state: evaluate(s.value, state),
    syntax.Lambda: do_lambda,
}


# places


def place_of(node: object, state: State) -> tuple[object, int, int | None, str | None]:
    """(root, first bit, width or None for all, type or None) of something assignable."""
    match node:
        case syntax.Name(name):
            return ("D0" if name == "D" else name), 0, None, None
        case syntax.Field(base, kind) if TYPE.match(kind):
            root, low, width, _ = place_of(base, state)
            return root, low, width, kind
        case syntax.Field(syntax.Name(base), name):
            return f"{base}.{name}", 0, None, None
        case syntax.Index(syntax.Index(syntax.Name("VGPR"), lane), number):
            return ("VGPR", evaluate(lane, state).read(), evaluate(number, state).read()), 0, None, None
        case syntax.Index(syntax.Name("SGPR"), number):
            return ("SGPR", evaluate(number, state).read()), 0, None, None
        case syntax.Index(syntax.Name(name), index) if isinstance(state.variables.get(name), list):
            return (name, evaluate(index, state).read()), 0, None, None
        case syntax.Index(base, index):
            root, low, _, _ = place_of(base, state)
            return root, low + evaluate(index, state).read(), 1, None
        case syntax.Slice(base, high, low):
            root, start, _, _ = place_of(base, state)
            h, n = evaluate(high, state).read(), evaluate(low, state).read()
            return root, start + n, h - n + 1, None
    raise NoWitnessError(f"can't assign to {type(node).__name__}")


def assign(target: object, value: Value, state: State) -> None:
    if isinstance(target, syntax.Concat):
        for part in reversed(target.parts):
            root, low, width, kind = place_of(part, state)
            width = width or int(TYPE.match(kind or "").group(2))
            store(root, low, width, unsigned((value.number >> 0) & ((1 << width) - 1), width), state)
            value = unsigned(value.bits >> width, value.width - width)
        return
    root, low, width, kind = place_of(target, state)
    if root == "ROUND_MODE":
        state.mode = value if isinstance(value, str) else state.mode
        return
    if kind:
        value = typed(value, kind, state, root, width)
        state.types[root] = kind
        width = width or value.width
    elif isinstance(root, tuple) and isinstance(state.variables.get(root[0]), list):
        state.variables[root[0]] = list(state.variables[root[0]])
        old = state.variables[root[0]][root[1]]
        value = convert_float(value, old.kind) if value.is_float else reinterpret(value, old.kind, old.width)
        state.variables[root[0]][root[1]] = value
        return
    elif width is None:
        old = state.variables.get(root)
        if old is None or root not in OUTPUTS:
            state.variables[root] = value
            return
        width = old.width
    store(root, low, width, value, state)


def typed(value: Value, kind: str, state: State, root: object, width: int | None) -> Value:
    letter, bits = TYPE.match(kind).groups()
    if kind in FORMATS:
        return convert_float(value, kind) if value.is_float else reinterpret(value, kind, int(bits))
    if state.saturate and not value.is_float and letter in "ui":
        n = int(bits)
        low, high = (0, (1 << n) - 1) if letter == "u" else (-(1 << (n - 1)), (1 << (n - 1)) - 1)
        return Value(LETTERS[letter], n, min(max(value.number, low), high))
    return reinterpret(value, LETTERS[letter], int(bits))


def store(root: object, low: int, width: int, value: Value, state: State) -> None:
    old = state.variables.get(root)
    if old is None:
        old = Value("B", low + width, 0)
    total = max(old.width, low + width)
    mask = ((1 << width) - 1) << low
    bits = (old.bits & ~mask) | ((value.number << low) & mask)
    loose = (old.loose & ~mask) | ((value.loose << low) & mask)
    state.variables[root] = Value("B", total, bits, loose)
    state.written[root] = state.written.get(root, 0) | mask


# expressions


def evaluate(node: object, state: State) -> Value:
    return EXPRESSIONS[type(node)](node, state)


def of_number(n: syntax.Number, state: State) -> Value:
    if n.kind in FORMATS:
        return make_float(n.kind, Fraction(n.text))
    number = int(n.text, 0)
    return Value(n.kind, max(n.width, number.bit_length()), number)


def of_name(n: syntax.Name, state: State) -> Value:
    if n.name in state.variables:
        return state.variables[n.name]
    if n.name in CONSTANTS:
        return CONSTANTS[n.name]
    if n.name == "ROUND_MODE":
        return state.mode
    raise UndeterminedError(f"{n.name} has no value")


def of_field(n: syntax.Field, state: State) -> Value:
    match = TYPE.match(n.type)
    if match:
        letter, bits = match.groups()
        if n.base == syntax.Name("DENORM"):
            raise UndeterminedError("DENORM is a class, not a value")
        return reinterpret(evaluate(n.base, state), n.type if n.type in FORMATS else LETTERS[letter], int(bits))
    root = f"{n.base.name}.{n.type}"
    if root not in state.variables:
        raise UndeterminedError(f"{root} has no value")
    return state.variables[root]


def of_index(n: syntax.Index, state: State) -> Value:
    match n:
        case syntax.Index(syntax.Index(syntax.Name("VGPR"), _), _) | syntax.Index(syntax.Name("SGPR"), _):
            return state.variables[place_of(n, state)[0]]
        case syntax.Index(syntax.Name(name), index) if isinstance(state.variables.get(name), list):
            return state.variables[name][evaluate(index, state).read()]
    at = evaluate(n.index, state).read()
    base = evaluate(n.base, state)
    return Value("U", 1, (base.number >> at) & 1, (base.loose >> at) & 1)


def of_slice(n: syntax.Slice, state: State) -> Value:
    base, high, low = evaluate(n.base, state), evaluate(n.high, state).read(), evaluate(n.low, state).read()
    if high < low:
        width = low - high + 1
        return unsigned(sum(((base.number >> (low - i)) & 1) << i for i in range(width)), width)
    return part(base, low, high - low + 1)


def part(base: Value, low: int, width: int) -> Value:
    mask = (1 << width) - 1
    return Value("U", width, (base.number >> low) & mask, (base.loose >> low) & mask)


def of_part(n: syntax.Part, state: State) -> Value:
    return part(evaluate(n.base, state), evaluate(n.start, state).read(), evaluate(n.width, state).read())


def of_call(n: syntax.Call, state: State) -> Value:
    arguments = [evaluate(a, state) for a in n.arguments]
    if n.function in state.functions:
        function = state.functions[n.function]
        inner = State({**state.variables, **dict(zip(function.parameters, arguments, strict=True))})
        return execute(function.body, inner)
    if n.function in FUNCTIONS:
        return FUNCTIONS[n.function](state.mode, *arguments)
    name = n.function.upper()
    registers = {f"S{i}": a for i, a in enumerate(arguments)}
    keep = {k: v for k, v in state.variables.items() if isinstance(k, str) and k.startswith("WAVE_MODE")}
    inner = run(program_of(name), State({**registers, **keep, "D0": unsigned(0, 64), "SCC": unsigned(0, 1)}))
    kind = inner.types["D0"]
    return reinterpret(inner["D0"], kind if kind in FORMATS else LETTERS[kind[0]], int(TYPE.match(kind).group(2)))


def of_cast(n: syntax.Cast, state: State) -> Value:
    value = evaluate(n.value, state)
    if n.kind in ("F", "BF"):
        kind = f"{n.kind.lower()}{n.width}"
        return convert_float(value, kind) if value.is_float else reinterpret(value, kind, n.width)
    if value.is_float:
        return reinterpret(value, n.kind, n.width)
    mask = (1 << n.width) - 1
    number = wrap_signed(value.number, n.width) if n.kind == "I" else value.number & mask
    return Value(n.kind, n.width, number, value.loose & mask)


def of_unary(n: syntax.Unary, state: State) -> Value:
    value = evaluate(n.value, state)
    match n.operator:
        case "!":
            return boolean(not value.truth)
        case "~":
            return Value(value.kind, value.width, ~(value.bits if value.is_float else value.number), value.loose)
        case "-":
            return negate(value) if value.is_float else Value(value.kind, value.width, -value.number)
    return value


def signed_zero(node: object) -> int | None:
    """0 or 1 for a zero written with its sign (`+0.0`, `-0.0`): comparing with one is meant to look at the sign."""
    match node:
        case syntax.Unary("+" | "-" as sign, syntax.Number(kind, _, text)) if kind in FORMATS and Fraction(text) == 0:
            return int(sign == "-")
    return None


def of_binary(n: syntax.Binary, state: State) -> Value:
    left = evaluate(n.left, state)
    if n.operator in ("&&", "||"):
        settled = left.truth == (n.operator == "||")
        return boolean(left.truth if settled else evaluate(n.right, state).truth)
    zero = signed_zero(n.right)
    if n.operator == "==" and zero is not None:
        return boolean(not is_nan(left) and left.bits == (left.format.sign_bit if zero else 0))
    return combine(n.operator, left, evaluate(n.right, state))


def of_conditional(n: syntax.Conditional, state: State) -> Value:
    return evaluate(n.yes if evaluate(n.condition, state).truth else n.no, state)


def of_concat(n: syntax.Concat, state: State) -> Value:
    number = width = loose = 0
    for node in n.parts:
        value = evaluate(node, state)
        number, loose = number << value.width | value.bits, loose << value.width | value.loose
        width += value.width
    return unsigned(number, width, loose)


EXPRESSIONS = {
    syntax.Number: of_number,
    syntax.Name: of_name,
    syntax.Field: of_field,
    syntax.Index: of_index,
    syntax.Slice: of_slice,
    syntax.Part: of_part,
    syntax.Call: of_call,
    syntax.Cast: of_cast,
    syntax.Unary: of_unary,
    syntax.Binary: of_binary,
    syntax.Conditional: of_conditional,
    syntax.Concat: of_concat,
}
