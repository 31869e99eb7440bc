"""Every one-place change of a module that mutmut's operators know, as whole sources.

mutmut 3 itself can't be pointed at these folders. It mutates what stands inside functions alone, and the tables of
`reference/dialects.py`, `layouts/memory.py` and `layouts/mfma.py` stand outside them; it skips every decorated
function, among them all properties; and it takes the path of a file for the name of its module, while
`reference/gemm.py` is imported as mxassay.reference.gemm. So its operators are used; the walk over a module is ours.

Nothing is mutated where a change can't be seen by running the module: type annotations (nobody reads them here), what
stands under `if TYPE_CHECKING:`, and docstrings (their examples are run by the tests, but the operators would only
change letters in them). Changes that leave the syntax tree as it is are dropped, and so are those that don't compile;
of the three that make a zip not strict (`strict=None`, `strict=False`, nothing) the first is kept.
Words of error messages are mutated like everything else.
"""

import ast
import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst
from libcst import matchers
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators


@dataclass(frozen=True)
class Mutant:
    """`source` is a module's whole text with one change at `line`. `ident` stays when other lines move."""

    ident: str
    line: int
    diff: str
    source: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """All mutants of a module's text, from top to bottom."""
    wrapper = MetadataWrapper(libcst.parse_module(source))
    places = wrapper.resolve(PositionProvider)
    module = wrapper.module
    texts = [module.code_for_node(node) for node in (*module.header, *module.body, *module.footer)]
    assert "".join(texts) == source, "a module must be the sum of its statements"
    twins: Counter[str] = Counter()
    for position, statement in enumerate(module.body, len(module.header)):
        walk = _Walk()
        seen = {_tree(texts[position])}
        statement.visit(walk)
        for where, old, new in walk.found:
            changed = statement.deep_replace(old, new)
            assert isinstance(changed, libcst.CSTNode)
            text = module.code_for_node(changed)
            tree = _tree(text)
            if tree is None or tree in seen:
                continue
            seen.add(tree)
            diff = _difference(texts[position], text)
            key = hashlib.sha256(f"{where}\n{diff}".encode()).hexdigest()[:10]
            twins[key] += 1
            line = places[old].start.line if old in places else places[statement].start.line
            whole = "".join((*texts[:position], text, *texts[position + 1 :]))
            yield Mutant(key if twins[key] == 1 else f"{key}-{twins[key]}", line, diff, whole)


def _tree(text: str) -> str | None:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
        return _SLACK.sub("", ast.dump(ast.parse(text)))
    except SyntaxError:
        return None


# What a zip that is not strict may say: one program, written in three ways.
_SLACK = re.compile(r", keywords=\[(keyword\(arg='strict', value=Constant\(value=(None|False)\)\))?\]")


def _difference(old: str, new: str) -> str:
    """The lines that differ, without their place."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return "\n".join(line[0] + line[1:].strip() for line in list(lines)[2:] if not line.startswith("@@"))


class _Walk(libcst.CSTVisitor):
    """Collects (qualified name of the scope, node, changed node)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, libcst.CSTNode, libcst.CSTNode]] = []
        self._scope: list[str] = []

    def on_visit(self, node: libcst.CSTNode) -> bool:
        if _invisible(node):
            return False
        if isinstance(node, libcst.FunctionDef | libcst.ClassDef):
            self._scope.append(node.name.value)
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                self.found.extend((".".join(self._scope), node, new) for new in operator(node))
        return True

    def on_leave(self, original_node: libcst.CSTNode) -> None:
        if isinstance(original_node, libcst.FunctionDef | libcst.ClassDef):
            self._scope.pop()


def _invisible(node: libcst.CSTNode) -> bool:
    docstring = matchers.Expr(value=matchers.SimpleString() | matchers.ConcatenatedString())
    typing_alone = matchers.If(test=matchers.Name("TYPE_CHECKING"))
    return matchers.matches(node, matchers.Annotation() | docstring | typing_alone)
