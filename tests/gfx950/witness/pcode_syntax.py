"""Tokens, grammar and tree of AMD's instruction pseudocode, as printed in the CDNA ISA documents.

Newlines mean nothing apart from ending a comment. Precedence is C's, with `**` above `*`, and `<>` for
"less or greater".
"""

import re
from dataclasses import dataclass


class PcodeSyntaxError(Exception):
    """The text is not in the language (prose, a table, a picture)."""


@dataclass(frozen=True, slots=True)
class Number:
    kind: str  # U, I or the float format's name
    width: int
    text: str


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Field:
    base: object
    type: str


@dataclass(frozen=True, slots=True)
class Index:
    base: object
    index: object


@dataclass(frozen=True, slots=True)
class Slice:
    base: object
    high: object
    low: object


@dataclass(frozen=True, slots=True)
class Part:
    """`x[base +: width]`."""

    base: object
    start: object
    width: object


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple


@dataclass(frozen=True, slots=True)
class Cast:
    width: int
    kind: str  # U I B F BF
    value: object


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    value: object


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: object
    right: object


@dataclass(frozen=True, slots=True)
class Conditional:
    condition: object
    yes: object
    no: object


@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple


@dataclass(frozen=True, slots=True)
class Assign:
    targets: tuple
    operator: str  # "" or the operator of `op=`
    value: object


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple  # of (condition, body); the last condition is None for else


@dataclass(frozen=True, slots=True)
class For:
    variable: str
    first: object
    last: object
    body: tuple


@dataclass(frozen=True, slots=True)
class Declare:
    name: str
    width: int
    kind: str
    count: int | None


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Return:
    value: object


@dataclass(frozen=True, slots=True)
class Lambda:
    name: str
    parameters: tuple
    body: tuple


TOKEN = re.compile(
    r"""\s*(?:
    (?P<cast>\d+'(?:BF|[UIBF])\b)
  | (?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?)(?:U)?)
  | (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>\*\*|\+:|\+=|-=|\*=|\|=|&=|<<|>>|<>|<=|>=|==|!=|&&|\|\||[-+*/&|^~!<>=?:;,.(){}\[\]])
    )""",
    re.VERBOSE,
)
LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<>"),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/"),
)
TYPE = re.compile(r"(bf|fp|[uibf])(\d+)$")


def tokens(text: str) -> list[tuple[str, str]]:
    text = re.sub(r"//[^\n]*", "", text)
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise PcodeSyntaxError(f"token at {text[at : at + 30]!r}")
        found.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
        at = match.end()
    return found


def literal(kind: str, text: str) -> Number:
    if kind == "sized":
        width, _, digits = text.partition("'")
        if "." in digits:
            return Number(f"f{width}", int(width), digits)
        return Number("U" if digits.endswith("U") else "I", int(width), digits.rstrip("U"))
    if text.startswith("0x"):
        digits = text.rstrip("UL")
        return Number("U", 64 if text.endswith("LL") else 32, digits)
    if "." in text:
        return Number("f32", 32, text[:-1]) if text.endswith("F") else Number("f64", 64, text)
    digits = text.rstrip("UL")
    return Number("U" if "U" in text else "I", 64 if text.endswith("LL") else 32, digits)


class Parser:
    def __init__(self, text: str):
        self.tokens = tokens(text)
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if wanted and token not in wanted:
            raise PcodeSyntaxError(f"expected {' or '.join(wanted)}, found {token!r}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def program(self) -> tuple:
        body = self.block()
        if self.at != len(self.tokens):
            raise PcodeSyntaxError(f"unexpected {self.peek()!r}")
        return body

    def block(self) -> tuple:
        body = []
        while self.peek() not in ("", "endif", "endfor", "else", "elsif", ")"):
            body.append(self.statement())
            if not self.accept(";"):
                break
        return tuple(body)

    def statement(self) -> object:
        match self.peek():
            case "if":
                return self.conditional_block()
            case "for":
                self.take()
                variable = self.take()
                self.take("in")
                first = self.expression()
                self.take(":")
                last = self.expression()
                self.take("do")
                body = self.block()
                self.take("endfor")
                return For(variable, first, last, body)
            case "declare":
                return self.declaration()
            case "break":
                self.take()
                return Break()
            case "return":
                self.take()
                return Return(self.expression())
        if self.peek(1) == "=" and self.peek(2) == "lambda":
            return self.function()
        return self.assignment()

    def conditional_block(self) -> If:
        branches = []
        self.take("if")
        while True:
            condition = self.expression()
            self.take("then")
            branches.append((condition, self.block()))
            word = self.take("elsif", "else", "endif")
            if word == "else":
                branches.append((None, self.block()))
                word = self.take("endif")
            if word == "endif":
                return If(tuple(branches))

    def declaration(self) -> Declare:
        self.take("declare")
        name = self.take()
        self.take(":")
        width, _, kind = self.take().partition("'")
        count = None
        if self.accept("["):
            count = int(self.take())
            self.take("]")
        return Declare(name, int(width), kind, count)

    def function(self) -> Lambda:
        name = self.take()
        self.take("=")
        self.take("lambda")
        self.take("(")
        parameters = [self.take()]
        while self.accept(","):
            parameters.append(self.take())
        self.take(")")
        self.take("(")
        statement = self.peek() in ("if", "declare", "for", "return")
        body = self.block() if statement else (Return(self.expression()),)
        self.take(")")
        return Lambda(name, tuple(parameters), body)

    def assignment(self) -> object:
        first = self.expression()
        operator = self.peek()
        if operator in ("+=", "-=", "*=", "|=", "&="):
            self.take()
            return Assign((first,), operator[0], self.expression())
        targets = []
        value = first
        while self.accept("="):
            targets.append(value)
            value = self.expression()
        if not targets:
            raise PcodeSyntaxError("a statement that assigns nothing")
        return Assign(tuple(targets), "", value)

    def expression(self) -> object:
        condition = self.level(0)
        if not self.accept("?"):
            return condition
        yes = self.expression()
        self.take(":")
        return Conditional(condition, yes, self.expression())

    def level(self, depth: int) -> object:
        if depth == len(LEVELS):
            return self.power()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            left = Binary(self.take(), left, self.level(depth + 1))
        return left

    def power(self) -> object:
        left = self.unary()
        return Binary("**", left, self.power()) if self.accept("**") else left

    def unary(self) -> object:
        if self.peek() in ("-", "+", "~", "!"):
            return Unary(self.take(), self.unary())
        return self.postfix(self.primary())

    def primary(self) -> object:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        self.at += 1
        if kind == "cast":
            width, _, letter = text.partition("'")
            self.take("(")
            value = self.expression()
            self.take(")")
            return Cast(int(width), letter, value)
        if kind in ("sized", "number"):
            return literal(kind, text)
        if text == "(":
            value = self.expression()
            self.take(")")
            return value
        if text == "{":
            parts = [self.expression()]
            while self.accept(","):
                parts.append(self.expression())
            self.take("}")
            return Concat(tuple(parts))
        if kind != "name":
            raise PcodeSyntaxError(f"expected a value, found {text!r}")
        if not self.accept("("):
            return Name(text)
        arguments = [] if self.peek() == ")" else [self.expression()]
        while self.accept(","):
            arguments.append(self.expression())
        self.take(")")
        return Call(text, tuple(arguments))

    def postfix(self, value: object) -> object:
        while True:
            if self.accept("."):
                value = Field(value, self.take())
            elif self.accept("["):
                first = self.expression()
                if self.accept(":"):
                    value = Slice(value, first, self.expression())
                elif self.accept("+:"):
                    value = Part(value, first, self.expression())
                else:
                    value = Index(value, first)
                self.take("]")
            else:
                return value


def parse(text: str) -> tuple:
    """The statements of one instruction's pseudocode.

    Raises:
        PcodeSyntaxError: the text is prose or a picture, not a program.
    """
    return Parser(text).program()
