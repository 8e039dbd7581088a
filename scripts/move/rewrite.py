"""Move and rename the modules, symbols, parameters and attributes of a ksame checkout, from tables.

Usage: /tmp/cst/bin/python /work/wt/tool/rewrite.py CHECKOUT   (a clean checkout with the old layout)

The tables are in ``tables.py``. Phases:
1. split modules that are too long into virtual modules (``core__errors``) beside the old one;
2. index all modules: what each defines, imports and re-exports;
3. rewrite every Python file: definitions, imports, references, attributes, keywords, strings;
4. rewrite dotted names and paths in strings, comments and documentation;
5. write the files to their new places, make package files, delete what is left.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import libcst as cst
from libcst.metadata import (
    ByteSpanPositionProvider,
    ClassScope,
    ComprehensionScope,
    FunctionScope,
    GlobalScope,
    ImportAssignment,
    MetadataWrapper,
    ParentNodeProvider,
    ScopeProvider,
)

sys.path.insert(0, str(Path(__file__).parent))
import tables as T

ROOT = Path(sys.argv[1]).resolve()
SRC = ROOT / "src"
NOTES: list[str] = []


def note(*words: object) -> None:
    text = " ".join(map(str, words))
    if text not in NOTES:
        NOTES.append(text)


# ---------------------------------------------------------------- modules


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def path_of(module: str, package: bool) -> Path:
    base = SRC.joinpath(*module.split("."))
    return base / "__init__.py" if package else base.with_suffix(".py")


class Mod:
    def __init__(self, name: str, path: Path, text: str) -> None:
        self.name, self.path, self.text = name, path, text
        self.package = path.name == "__init__.py"
        self.defined: set[str] = set()
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.names_used: set[str] = set()
        tree = ast.parse(text)
        self._scan(tree.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.names_used.add(node.id)
            elif isinstance(node, ast.ImportFrom | ast.Import) and node not in tree.body:
                self._import(node)  # late imports: tests patch those, too

    def _import(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ksame":
            for alias in node.names:
                self.imports.setdefault(alias.asname or alias.name, (node.module, alias.name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and alias.name.startswith("ksame"):
                    self.imports.setdefault(alias.asname, (alias.name, None))

    def _scan(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.defined.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self.defined |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            elif isinstance(node, ast.ImportFrom | ast.Import):
                self._import(node)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                self._scan(node.body)


MODS: dict[str, Mod] = {}
SPLIT_HOME: dict[str, dict[str, str]] = {}  # old module -> symbol -> virtual module
PARTS: dict[str, list[str]] = {}  # old module -> itself and its virtual modules
MOVES: dict[str, str] = dict(T.MOVES)


def new_module(old: str) -> str:
    return MOVES.get(old, old)


# ---------------------------------------------------------------- phase 1: splits


def leading_names(stmt: cst.CSTNode) -> set[str]:
    tree = ast.parse(cst.Module(body=[stmt]).code)
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def is_import(stmt: cst.CSTNode) -> bool:
    tree = ast.parse(cst.Module(body=[stmt]).code)
    return all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.If) and all(isinstance(n, ast.Import | ast.ImportFrom) for n in node.body))
        for node in tree.body
    ) and bool(tree.body)


def split(old: str, plan: dict) -> None:
    path = next((p for p in (path_of(old, False), path_of(old, True)) if p.exists()), None)
    if path is None:
        note("SPLIT: no such module", old)
        return
    text = path.read_text(encoding="utf-8")
    module = cst.parse_module(text)
    body = list(module.body)
    docstring = None
    first = body[0]
    if isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], cst.Expr):
        docstring = body.pop(0)
    imports = [s for s in body if is_import(s)]
    rest = [s for s in body if not is_import(s)]
    home: dict[str, str] = {}
    for virtual_new, part in plan["parts"].items():
        for name in part["symbols"]:
            home[name] = virtual_new
    copied = set(plan.get("copy", ()))
    grouped: dict[str, list[cst.CSTNode]] = defaultdict(list)
    where: dict[str, str] = {}
    exported: list[str] | None = None
    last = "main"
    shared: list[tuple[set[str], cst.CSTNode]] = []
    for stmt in rest:
        names = leading_names(stmt)
        if names == {"__all__"}:
            exported = ast.literal_eval(ast.parse(cst.Module(body=[stmt]).code).body[0].value)
            continue
        if names & copied:
            shared.append((names, stmt))
            continue
        code = cst.Module(body=[stmt]).code
        bare = not names and isinstance(stmt, cst.SimpleStatementLine) and code.lstrip().startswith(('"""', "'''"))
        homes = {home[n] for n in names if n in home}
        if len(homes) > 1:
            note("SPLIT: one statement, two homes", old, names)
        dest = last if bare else (homes.pop() if homes else "main")
        last = dest
        grouped[dest].append(stmt)
        for n in names:
            where[n] = dest
    for key, stmts in grouped.items():
        for names, stmt in reversed(shared):
            words = re.findall(r"\w+", "".join(cst.Module(body=[one]).code for one in stmts))
            if names & set(words):
                stmts.insert(0, stmt)
    missing = set(home) - set(where)
    if missing:
        note("SPLIT: symbols not found in", old, sorted(missing))
    virtual = {key: old if key == "main" else f"{old}__{key.rsplit('.', 1)[-1]}" for key in grouped}
    for key, stmts in grouped.items():
        used: set[str] = set()
        for stmt in stmts:
            for node in ast.walk(ast.parse(cst.Module(body=[stmt]).code)):
                if isinstance(node, ast.Name):
                    used.add(node.id)
        needs: dict[str, list[str]] = defaultdict(list)
        for name in sorted(used):
            if name in where and where[name] != key:
                needs[virtual[where[name]]].append(name)
        head = cst.Module(body=imports, header=[]).code
        extra = "".join(f"from {mod} import {', '.join(names)}\n" for mod, names in needs.items())
        here = [n for n in exported or () if where.get(n) == key or n in copied]
        listed = f"\n__all__ = {json.dumps(here)}\n\n" if exported is not None else "\n"
        doc = cst.Module(body=[docstring]).code if key == "main" and docstring else ""
        if key != "main":
            doc = f'"""{plan["parts"][key]["doc"]}"""\n\n'
        elif plan.get("doc"):
            doc = f'"""{plan["doc"]}"""\n\n'
        code = doc + head + extra + listed + cst.Module(body=stmts).code
        name = virtual[key]
        target = path if key == "main" else path_of(name, False) if path.name != "__init__.py" else None
        assert target is not None
        MODS[name] = Mod(name, target, code)
        MOVES[name] = plan["main"] if key == "main" else key
        for n, w in where.items():
            if w == key:
                SPLIT_HOME.setdefault(old, {})[n] = name
    PARTS[old] = list(virtual.values())


# ---------------------------------------------------------------- phase 2: resolution


def resolve(module: str, name: str, seen: frozenset = frozenset()) -> tuple[str, str | None] | None:
    """Return (module, symbol) of what a name of a module is, or (module, None) for a module."""
    if (module, name) in seen:
        return None
    seen |= {(module, name)}
    if module in SPLIT_HOME and name in SPLIT_HOME[module]:
        return SPLIT_HOME[module][name], name
    mod = MODS.get(module)
    if mod is None:
        return None
    if name in mod.defined:
        return module, name
    if name in mod.imports:
        home, symbol = mod.imports[name]
        if symbol is None:
            return home, None
        return resolve(home, symbol, seen) or ((f"{home}.{symbol}", None) if f"{home}.{symbol}" in MODS else None)
    if f"{module}.{name}" in MODS:
        return f"{module}.{name}", None
    return None


def renamed(module: str, symbol: str) -> str:
    base = module.split("__")[0] if "__" in module.rsplit(".", 1)[-1] and not module.endswith("__main__") else module
    return T.RENAMES.get(f"{base}:{symbol}", symbol)


NEWBOUND: dict[str, dict[str, str]] = defaultdict(dict)  # module -> bound name -> new bound name


# ---------------------------------------------------------------- phase 3: one file


class Rewriter:
    """Collect edits of one text; ``module`` is its old name, or None for tests and scripts."""

    def __init__(self, text: str, module: str | None, label: str) -> None:
        self.text, self.module, self.label = text, module, label
        self.parse()
        self.fresh()

    def fresh(self) -> None:
        self.edits: dict[tuple[int, int], str] = {}
        self.bound: dict[str, str] = {}  # old -> new names at file level

    def parse(self) -> None:
        text = self.text
        self.data = text.encode()
        self.wrapper = MetadataWrapper(cst.parse_module(self.data), unsafe_skip_copy=True)
        self.span = self.wrapper.resolve(ByteSpanPositionProvider)
        self.scope = self.wrapper.resolve(ScopeProvider)
        self.parent = self.wrapper.resolve(ParentNodeProvider)
        self.scopes = {s for s in self.scope.values() if s is not None}
        self.globals = next(s for s in self.scopes if isinstance(s, GlobalScope))
        self.nodes: dict[type, list] = defaultdict(list)
        for node in self.span:
            self.nodes[type(node)].append(node)
        self.taken = self._all_bound()
        self.uses: dict[tuple, list[cst.Name]] = defaultdict(list)  # (scope that owns it, name) -> loads and stores
        for node in self.nodes[cst.Name]:
            if self._is_use(node):
                owner = self._owner(node)
                if owner is not None:
                    self.uses[(owner, node.value)].append(node)
        self.fresh_names: dict[tuple, str] = {}

    def _is_use(self, node: cst.Name) -> bool:
        up = self.parent.get(node)
        if isinstance(up, cst.Attribute):
            if up.attr is node:
                return False
            return not self.in_import(up)
        if isinstance(up, cst.Arg):
            return up.keyword is not node
        if isinstance(up, cst.Param):
            return up.name is not node
        if isinstance(up, cst.FunctionDef | cst.ClassDef):
            return up.name is not node
        if isinstance(up, cst.AsName):
            return not isinstance(self.parent.get(up), cst.ImportAlias)
        return not isinstance(up, cst.ImportAlias | cst.ImportFrom | cst.NameItem)

    def _owner(self, node: cst.Name):
        scope, start = self.scope.get(node), True
        scopes = self.taken.get(node.value, ())
        while scope is not None:
            if scope in scopes and (start or not isinstance(scope, ClassScope)):
                return scope
            start = False
            if isinstance(scope, GlobalScope) or scope.parent is scope:
                return None
            scope = scope.parent
        return None

    def _all_bound(self) -> dict[str, set]:
        taken: dict[str, set] = defaultdict(set)
        for scope in self.scopes:
            if isinstance(scope, GlobalScope | FunctionScope | ClassScope | ComprehensionScope):
                for a in scope.assignments:
                    taken[a.name.split(".")[0]].add(scope)
        return taken

    def edit(self, node: cst.CSTNode, new: str) -> None:
        s = self.span[node]
        self.edits[(s.start, s.start + s.length)] = new

    def run(self) -> str:
        self.rename_definitions()
        self.rewrite_imports()
        self.rewrite_sys_modules()
        self.rename_words()
        self.rename_setattr_strings()
        self.rename_all()
        self.code_strings()
        out, at = [], 0
        for (start, end), new in sorted(self.edits.items()):
            if start < at:
                note("OVERLAP", self.label, self.data[start:end].decode(), "->", new)
                continue
            out.append(self.data[at:start])
            out.append(new.encode())
            at = end
        out.append(self.data[at:])
        return b"".join(out).decode()

    # definitions of this module

    def rename_definitions(self) -> None:
        if self.module is None:
            return
        for a in list(self.globals.assignments):
            if isinstance(a, ImportAssignment):
                continue
            new = renamed(self.module, a.name)
            if new == a.name:
                NEWBOUND[self.module][a.name] = new
                continue
            if self.clash(new, a):
                note("CLASH: definition kept", f"{self.label}:{a.name} -> {new}")
                T.RENAMES.pop(f"{self.module}:{a.name}", None)
                continue
            self.rename_assignment(a, new)
            self.bound[a.name] = new
            NEWBOUND[self.module][a.name] = new

    def clash(self, new: str, a) -> bool:
        """Whether a new name would be shadowed where a binding is used, or meets another binding."""
        if new in RESERVED:
            return True
        other = self.fresh_names.get((a.scope, new))
        if other is not None and other != a.name:
            return True
        if a.scope in self.taken.get(new, ()):
            for b in a.scope[new]:
                if b is a or b.name == a.name:
                    continue
                if isinstance(b, ImportAssignment):
                    if self.import_new_name(b) == new:
                        return True
                elif not (self.module and a.scope is self.globals and renamed(self.module, new) != new):
                    return True
        for node in self.uses[(a.scope, a.name)]:
            scope = self.scope.get(node)
            while scope is not a.scope and scope is not None and not isinstance(scope, GlobalScope):
                if scope in self.taken.get(new, ()):
                    return True
                scope = scope.parent
        self.fresh_names[(a.scope, new)] = a.name
        return False

    def rename_assignment(self, a, new: str) -> None:
        node = a.node
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param):
            self.edit(node.name, new)
        self.rename_assignment_refs(a, new)

    # imports

    def import_new_name(self, a) -> str:
        """The bound name that an import will have."""
        try:
            got = self._target(a)
        except KeyError:
            got = None
        if got is None:
            return a.name
        module, symbol, asname = got
        if asname:
            return asname
        return renamed(module, symbol) if symbol else new_module(module).rsplit(".", 1)[-1]

    def _target(self, a):
        node = a.node
        if isinstance(node, cst.ImportFrom):
            source = dotted(node.module)
            if not source or source.split(".")[0] != "ksame":
                return None
            for alias in node.names:
                name = alias.evaluated_name
                if (alias.evaluated_alias or name) == a.name:
                    got = resolve(source, name)
                    if got is None:
                        note("UNRESOLVED", self.label, source, name)
                        return None
                    return got[0], got[1], alias.evaluated_alias
        if isinstance(node, cst.Import):
            for alias in node.names:
                if alias.evaluated_alias == a.name and alias.evaluated_name.startswith("ksame."):
                    return alias.evaluated_name, None, a.name
        return None

    def rewrite_imports(self) -> None:
        by_node: dict[cst.CSTNode, list] = defaultdict(list)
        for scope in self.scopes:
            for a in scope.assignments:
                if isinstance(a, ImportAssignment) and isinstance(a.node, cst.ImportFrom | cst.Import):
                    by_node[a.node].append(a)
        for node, assigned in by_node.items():
            if isinstance(node, cst.ImportFrom):
                source = dotted(node.module)
                if not source or source.split(".")[0] != "ksame":
                    continue
                if isinstance(node.names, cst.ImportStar):
                    note("STAR", self.label)
                    continue
                lines: list[str] = []
                for alias in node.names:
                    bound = alias.evaluated_alias or alias.evaluated_name
                    a = next(x for x in assigned if x.name == bound)
                    lines += self.import_lines(a, source, alias.evaluated_name, alias.evaluated_alias)
            else:
                if not any(alias.evaluated_name.startswith("ksame.") for alias in node.names):
                    continue
                lines = []
                for alias in node.names:
                    name, asname = alias.evaluated_name, alias.evaluated_alias
                    if not name.startswith("ksame.") or not asname:
                        lines.append(f"import {new_module(name)}" + (f" as {asname}" if asname else ""))
                        continue
                    a = next(x for x in assigned if x.name == asname)
                    parent, last = name.rsplit(".", 1)
                    lines += self.import_lines(a, parent, last, asname)
            indent = self.indent(node)
            self.edit(node, f"\n{indent}".join(dict.fromkeys(lines)))

    def indent(self, node: cst.CSTNode) -> str:
        start = self.span[node].start
        line = self.data.rfind(b"\n", 0, start) + 1
        lead = self.data[line:start].decode()
        return lead if not lead.strip() else ""

    def import_lines(self, a, source: str, name: str, asname: str | None) -> list[str]:
        got = resolve(source, name)
        if got is None:
            note("UNRESOLVED import", self.label, source, name)
            return [f"from {new_module(source)} import {name}" + (f" as {asname}" if asname else "")]
        home, symbol = got
        if symbol is not None:
            return self.symbol_import(a, source, home, symbol, asname)
        return self.module_import(a, home, asname)

    def symbol_import(self, a, source: str, home: str, symbol: str, asname: str | None) -> list[str]:
        new = renamed(home, symbol)
        facade = T.FACADES.get(source)
        own = facade and new_module(home).startswith(facade) and source != home
        where = facade if own and name_in_facade(source, a, symbol) else new_module(home)
        if self.module == "ksame":
            where = new_module(home)  # mypy takes a facade's function for the module of the same name
        if asname in T.DROP_ALIAS:
            asname_kept, target = None, new
        else:
            asname_kept, target = asname, asname or new
        if target != a.name:
            if self.clash(target, a):
                note("CLASH: import aliased", self.label, f"{symbol} -> {new}, kept as {a.name}")
                asname_kept, target = a.name, a.name
            else:
                self.rename_assignment_refs(a, target)
        if a.scope is self.globals:
            self.bound[a.name] = target
        if self.module:
            NEWBOUND[self.module].setdefault(a.name, target)
        if asname_kept == new:
            asname_kept = None
        return [f"from {where} import {new}" + (f" as {asname_kept}" if asname_kept else "")]

    def rename_assignment_refs(self, a, new: str) -> None:
        for node in self.uses[(a.scope, a.name)]:
            self.edit(node, new)

    def module_import(self, a, home: str, asname: str | None) -> list[str]:
        needed: dict[str, list] = defaultdict(list)  # new module -> [(name node)]
        for node in self.uses[(a.scope, a.name)]:
            module, chain = home, node
            while True:
                up = self.parent.get(chain)
                if not (isinstance(up, cst.Attribute) and up.value is chain):
                    needed[new_module(module)].append((node, chain if chain is not node else None))
                    self._patched(node, module, needed)
                    break
                attr = up.attr.value
                got = resolve(module, attr)
                if got is not None and got[1] is None and f"{module}.{attr}" == got[0]:
                    module, chain = got[0], up  # a submodule
                    continue
                if got is None:
                    if not attr.startswith("__"):
                        note("UNRESOLVED attribute", self.label, f"{module}.{attr}")
                    needed[new_module(module)].append((node, chain if chain is not node else None))
                    break
                if got[1] is None:  # a module that the module imports: what is patched, where it is used
                    part = self.user_of(module, attr)
                    bound = NEWBOUND.get(part, {}).get(attr)
                    needed[new_module(part)].append((node, chain if chain is not node else None))
                    if bound and bound != attr:
                        self.edit(up.attr, bound)
                    over = self.parent.get(up)
                    if isinstance(over, cst.Attribute) and over.value is up:
                        inner = resolve(got[0], over.attr.value)
                        if inner and inner[1] and renamed(*inner) != over.attr.value:
                            self.edit(over.attr, renamed(*inner))
                    break
                origin, symbol = got
                if origin == module or origin in PARTS.get(module, ()):
                    needed[new_module(origin)].append((node, chain if chain is not node else None))
                    new = renamed(origin, symbol)
                else:  # a name that the module has imported: a facade, or a patched import
                    facade = T.FACADES.get(module)
                    part = module if facade else self.user_of(module, attr)
                    needed[new_module(part)].append((node, chain if chain is not node else None))
                    new = renamed(origin, symbol) if attr == symbol else attr
                if new != attr:
                    self.edit(up.attr, new)
                break
        if not needed:
            needed[new_module(home)] = []
        lines = []
        for target, nodes in needed.items():
            parent, last = target.rsplit(".", 1) if "." in target else ("", target)
            alias = asname if asname and asname not in T.DROP_ALIAS and (len(needed) == 1 or target == new_module(home)) else last
            if alias != a.name and (self.alias_clash(alias, a, nodes) or alias in RESERVED):
                alias = f"{parent.rsplit('.', 1)[-1]}_{last}"
                note("ALIAS", self.label, target, "as", alias)
            lines.append(f"from {parent} import {last}" + (f" as {alias}" if alias != last else ""))
            for node, chain in nodes:
                if chain is not None:
                    self.edit(chain, alias)
                elif alias != node.value:
                    self.edit(node, alias)
            if a.scope is self.globals:
                self.bound[a.name] = alias
            if self.module:
                NEWBOUND[self.module].setdefault(a.name, alias)
        return lines

    def user_of(self, module: str, name: str, origin: str = "") -> str:
        """Which part of a split module uses a name: what tests patch there."""
        parts = PARTS.get(module)
        if not parts:
            return module
        users = [p for p in parts if name in MODS[p].names_used]
        if origin in parts and not users:
            return origin
        if len(users) > 1:
            note("PATCH in several parts", self.label, module, name, users)
        return users[0] if users else module

    def alias_clash(self, alias: str, a, nodes) -> bool:
        scopes = self.taken.get(alias, set())
        if not scopes:
            return False
        for scope in scopes:
            for b in scope[alias]:
                if isinstance(b, ImportAssignment) and self.import_new_name(b) != alias:
                    continue
                if b is a:
                    continue
                return True
        return False

    def _patched(self, node: cst.Name, module: str, needed: dict) -> None:
        """``monkeypatch.setattr(module, "name", ...)``: the module that has the name is what is needed."""
        second = self.second(node)
        if second is None:
            return
        name = second.evaluated_value
        got = resolve(module, name)
        if got is None:
            return
        needed[new_module(module)].pop()
        if not needed[new_module(module)]:
            needed.pop(new_module(module))
        origin, symbol = got
        part = self.user_of(module, name, origin)
        needed[new_module(part)].append((node, None))
        new = renamed(origin, symbol) if symbol else NEWBOUND.get(part, {}).get(name, name)
        if symbol and part != origin:
            new = NEWBOUND.get(part, {}).get(name, new)
        if new != name:
            self.edit(second, json.dumps(new))

    def second(self, node) -> cst.SimpleString | None:
        """The string after a node, as the next argument of a call or in a tuple."""
        arg = self.parent.get(node)
        call = self.parent.get(arg)
        if isinstance(arg, cst.Arg) and isinstance(call, cst.Call):
            items = call.args
        elif isinstance(arg, cst.Element) and isinstance(call, cst.Tuple):
            items = call.elements
        else:
            return None
        if len(items) < 2 or items[0] is not arg or not isinstance(items[1].value, cst.SimpleString):
            return None
        return items[1].value

    def rewrite_sys_modules(self) -> None:
        """``sys.modules["ksame.x"]``, inline or under a name: tests use it where a function hides a module."""
        for node in self.nodes[cst.Subscript]:
            code = cst.Module(body=[]).code_for_node(node)
            got = re.fullmatch(r'sys\.modules\["(ksame[\w.]*)"\]', code)
            if not got or got.group(1) not in MODS:
                continue
            module = got.group(1)
            second = self.second(node)
            if second is not None:
                self._sys_name(node, module, second.evaluated_value, second)
                continue
            up = self.parent.get(node)
            if not (isinstance(up, cst.Assign) and isinstance(up.targets[0].target, cst.Name)):
                continue
            for use in self.uses[(self.globals, up.targets[0].target.value)]:
                attribute, second = self.parent.get(use), self.second(use)
                if second is not None:
                    self._sys_name(use, module, second.evaluated_value, second)
                elif isinstance(attribute, cst.Attribute) and attribute.value is use:
                    self._sys_name(use, module, attribute.attr.value, attribute.attr)

    def _sys_name(self, node, module: str, name: str, where) -> None:
        got = resolve(module, name)
        if got is None or got[1] is None:  # something of another library: patched where it is used
            part, new = self.user_of(module, name), name
        else:
            origin, symbol = got
            patched = isinstance(where, cst.SimpleString)
            own = origin == module or origin in PARTS.get(module, ())
            part = self.user_of(module, name, origin) if patched or not own else origin
            new = renamed(origin, symbol)
        if new_module(part) != new_module(module) or isinstance(node, cst.Subscript):
            self.edit(node, f'sys.modules["{new_module(part)}"]')
        if new != name:
            self.edit(where, json.dumps(new) if isinstance(where, cst.SimpleString) else new)

    # attributes, methods, parameters, keywords and locals: words that are the same everywhere

    def rename_words(self) -> None:
        words, locals_ = T.words_of(self.label), T.local_words(self.label)
        for node in [*self.nodes[cst.Attribute], *self.nodes[cst.Arg]]:
            if isinstance(node, cst.Attribute) and node.attr.value in words:
                if not self.is_module(node.value) and self._key(node.attr) not in self.edits and not self.in_import(node):
                    self.edit(node.attr, words[node.attr.value])
            elif isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value in words:
                if not self.external(self.parent.get(node)):
                    self.edit(node.keyword, words[node.keyword.value])
        for scope in self.scopes:
            if not isinstance(scope, ClassScope | FunctionScope | ComprehensionScope):
                continue
            by_name: dict[str, list] = defaultdict(list)
            for a in scope.assignments:
                by_name[a.name].append(a)
            for name, assigned in by_name.items():
                if any(isinstance(a, ImportAssignment) for a in assigned):
                    continue
                if isinstance(scope, ClassScope):
                    if name in words:
                        if words[name] in by_name:
                            note("FIELD CLASH", self.label, self.function(assigned[0].node), name, words[name])
                        for a in assigned:
                            self.rename_assignment(a, words[name])
                    continue
                params = [a for a in assigned if isinstance(a.node, cst.Param)]
                function = self.parent.get(self.parent.get(params[0].node)) if params else None
                if params and (self.is_test(function) or (self.label, self.function(params[0].node)) in T.SKIP_PARAMS):
                    continue
                if any(isinstance(a.node, cst.FunctionDef | cst.ClassDef) for a in assigned):
                    continue
                if params:
                    choices = (words[name],) if name in words else ()
                else:
                    choices = locals_.get(name, ())
                new = next((n for n in choices if not any(self.local_clash(n, a, scope) for a in assigned)), None)
                if new is None:
                    if choices and params:
                        note("PARAM CLASH (renamed in spite of it)", self.label, self.function(assigned[0].node), name, choices)
                        new = choices[0]
                    elif choices:
                        note("LOCAL kept", self.label, self.function(assigned[0].node), name, choices)
                if new is None:
                    continue
                for a in assigned:
                    self.rename_assignment(a, new)
                    self.declared(a, new)

    def in_import(self, node) -> bool:
        while isinstance(node, cst.Attribute):
            node = self.parent.get(node)
        return isinstance(node, cst.ImportFrom | cst.Import | cst.ImportAlias)

    def is_test(self, function) -> bool:
        """Whether pytest fills a function's parameters by their names."""
        if not isinstance(function, cst.FunctionDef) or not self.label.startswith("tests/"):
            return False
        return function.name.value.startswith("test_") or any(
            "fixture" in cst.Module(body=[]).code_for_node(d.decorator) or "given" in cst.Module(body=[]).code_for_node(d.decorator)
            for d in function.decorators
        )

    def declared(self, a, new: str) -> None:
        """nonlocal and global statements."""
        for node in self.nodes[cst.NameItem]:
            if node.name.value == a.name and isinstance(self.parent.get(node), cst.Nonlocal):
                self.edit(node.name, new)

    def _key(self, node):
        s = self.span[node]
        return (s.start, s.start + s.length)

    def function(self, node) -> str:
        while node is not None and not isinstance(node, cst.FunctionDef | cst.ClassDef):
            node = self.parent.get(node)
        return node.name.value if node is not None else "?"

    def local_clash(self, new: str, a, scope) -> bool:
        if isinstance(scope, ClassScope):
            return any(b.name == new for b in scope.assignments)
        if scope in self.taken.get(new, ()):
            return True
        for node in self.uses[(scope, a.name)]:
            t = self.scope.get(node)
            while t is not None and t is not scope and not isinstance(t, GlobalScope):
                if t in self.taken.get(new, ()):
                    return True
                t = t.parent
        function = scope.node if isinstance(scope, FunctionScope) else None
        if function is None:
            function = getattr(scope, "node", None)
        if function is not None:
            used = self._names_in(function)
            if new in used:
                return True
            for old, fresh in self.bound.items():
                if fresh == new and old in used:
                    return True
        return False

    def _names_in(self, node) -> set[str]:
        cache = self.__dict__.setdefault("_cache", {})
        if node not in cache:
            found: set[str] = set()

            class V(cst.CSTVisitor):
                def visit_Name(self, n):
                    found.add(n.value)

                def visit_Attribute(self, n):
                    n.value.visit(self)
                    return False

                def visit_Arg(self, n):
                    n.value.visit(self)
                    return False

            node.visit(V())
            cache[node] = found
        return cache[node]

    def is_module(self, node) -> bool:
        if isinstance(node, cst.Name):
            scope = self.scope.get(node)
            if scope is None:
                return False
            try:
                found = scope[node.value]
            except KeyError:
                return False
            for a in found:
                if isinstance(a, ImportAssignment):
                    if isinstance(a.node, cst.Import):
                        return True
                    target = self._target(a)
                    if target is None:  # from somewhere else
                        return True
                    return target[1] is None
        if isinstance(node, cst.Attribute):
            return self.is_module(node.value) and isinstance(node.value, cst.Name) and node.value.value in ("np", "cv2", "av")
        return False

    def external(self, call) -> bool:
        """Whether a call is surely of a function of somebody else."""
        if not isinstance(call, cst.Call):
            return False
        func = call.func
        while isinstance(func, cst.Attribute):
            func = func.value
        if not isinstance(func, cst.Name):
            return False
        scope = self.scope.get(func)
        try:
            found = scope[func.value] if scope is not None else ()
        except KeyError:
            return False
        for a in found:
            if isinstance(a, ImportAssignment):
                if isinstance(a.node, cst.Import):
                    return not any(al.evaluated_name.startswith("ksame") for al in a.node.names)
                source = dotted(a.node.module)
                if source in T.KEYWORD_THROUGH:
                    return False
                return bool(source) and source.split(".")[0] not in ("ksame", *T.TEST_MODULES)
        return False

    # strings

    def rename_setattr_strings(self) -> None:
        """``setattr(Class, "method", ...)`` and ``getattr``: words in strings."""
        for node in self.nodes[cst.Call]:
            if not len(node.args) >= 2:
                continue
            func = node.func
            name = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
            if name not in ("setattr", "getattr", "delattr", "hasattr", "attrgetter"):
                continue
            target = node.args[1].value
            if not isinstance(target, cst.SimpleString) or self._key(target) in self.edits:
                continue
            word = target.evaluated_value
            words = T.words_of(self.label)
            if isinstance(word, str) and word in words and not self.is_module(node.args[0].value):
                self.edit(target, json.dumps(words[word]))

    def rename_all(self) -> None:
        for node in self.nodes[cst.Assign]:
            if not (len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)):
                continue
            if node.targets[0].target.value != "__all__" or not isinstance(node.value, cst.List | cst.Tuple):
                continue
            for element in node.value.elements:
                if isinstance(element.value, cst.SimpleString):
                    name = element.value.evaluated_value
                    new = self.bound.get(name, name)
                    if new != name:
                        self.edit(element.value, json.dumps(new))

    def code_strings(self) -> None:
        """Python code in strings, which tests run in processes of their own."""
        done: set[cst.CSTNode] = set()
        for node in self.nodes[cst.ConcatenatedString]:
            if isinstance(self.parent.get(node), cst.ConcatenatedString):
                continue
            pieces, rest = [], node
            while isinstance(rest, cst.ConcatenatedString):
                pieces.append(rest.left)
                rest = rest.right
            pieces.append(rest)
            if not all(isinstance(piece, cst.SimpleString) for piece in pieces):
                continue
            done |= set(pieces)
            code = "".join(piece.evaluated_value for piece in pieces)
            new = self.code_string(code)
            if new != code:
                indent = " " * (self.span[pieces[0]].start - self.data.rfind(b"\n", 0, self.span[pieces[0]].start) - 1)
                lines = [json.dumps(line, ensure_ascii=False) for line in new.splitlines(keepends=True)]
                self.edit(node, f"\n{indent}".join(lines))
        for node in self.nodes[cst.SimpleString]:
            raw = node.value
            if node in done or "ksame" not in raw or raw[0] not in "\"'" or ">>>" in raw:
                continue
            quote = raw[:3] if raw[:3] in ('"""', "'''") else raw[0]
            inner = raw[len(quote) : -len(quote)]
            if "\\" in inner.replace("\\n", ""):
                continue
            code = inner.replace("\\n", "\n") if len(quote) == 1 else inner
            new = self.code_string(code)
            if new != code:
                self.edit(node, quote + (new.replace("\n", "\\n") if len(quote) == 1 else new) + quote)

    def code_string(self, code: str) -> str:
        if not re.search(r"^(from ksame|import ksame)", code, re.M):
            return code
        try:
            return Rewriter(code, None, self.label + ":string").run()
        except cst.ParserSyntaxError:
            return code


RESERVED = {"list", "set", "dict", "type", "id", "input", "all", "any", "sum", "map", "filter", "next", "iter"}


def dotted(node) -> str:
    if node is None:
        return ""
    if isinstance(node, cst.Name):
        return node.value
    return f"{dotted(node.value)}.{node.attr.value}"


def name_in_facade(source: str, a, symbol: str) -> bool:
    return symbol in MODS[source].imports or symbol in MODS[source].defined or any(
        v == (v[0], symbol) for v in MODS[source].imports.values()
    )


# ---------------------------------------------------------------- phase 4: text


CHAIN = re.compile(r"(?<![\w./-])ksame((?:\.[A-Za-z_]\w*)+)")
FROM = re.compile(r"from (ksame(?:\.\w+)*) import ([\w, ]+?)(?=[\n\"'`;]|$)")
PATH = re.compile(r"(?<![\w])((?:src/)?ksame/[\w/]+\.(?:py|html|npz|md))|(?<![\w])(src/ksame/[\w/]+)")


def chain_new(chain: str) -> str:
    """A dotted name in a string: as far as it is known, in its new words."""
    parts = chain.split(".")
    module, i = "ksame", 1
    while i < len(parts) and f"{module}.{parts[i]}" in MODS and not (
        parts[i] in MODS[module].defined or (module == "ksame" and parts[i] in ("audit", "verify"))
    ):
        module = f"{module}.{parts[i]}"
        i += 1
    if i == len(parts):
        return T.DROP.get(module) or new_module(module)
    name = parts[i]
    if module == "ksame":
        return chain
    got = resolve(module, name)
    if got is None:
        return ".".join([new_module(module), *parts[i:]]) if module in MODS else chain
    origin, symbol = got
    tail = [T.WORDS.get(p, p) for p in parts[i + 1 :]]
    if symbol is not None and (origin == module or origin in PARTS.get(module, ())):
        return ".".join([new_module(origin), renamed(origin, symbol), *tail])
    if symbol is not None and T.FACADES.get(module):
        return ".".join([new_module(module), renamed(origin, symbol), *tail])
    part = module
    if module in PARTS:
        users = [p for p in PARTS[module] if name in MODS[p].names_used]
        part = users[0] if users else module
        if len(users) > 1:
            note("PATCH in several parts", chain, users)
    bound = NEWBOUND.get(part, {}).get(name, name)
    if symbol is None and tail:  # a module that is imported there: its own names follow
        first = resolve(origin, parts[i + 1])
        if first and first[1]:
            tail[0] = renamed(*first)
    if symbol is not None and tail:
        pass
    return ".".join([new_module(part), bound, *tail])


def from_new(match: re.Match) -> str:
    source, names = match.group(1), match.group(2)
    if source not in MODS:
        return match.group(0)
    lines: dict[str, list[str]] = defaultdict(list)
    for item in (n.strip() for n in names.split(",")):
        if not item:
            continue
        name, _, alias = item.partition(" as ")
        got = resolve(source, name)
        if got is None:
            lines[new_module(source)].append(item)
            continue
        origin, symbol = got
        if symbol is None:
            parent, last = new_module(origin).rsplit(".", 1)
            lines[parent].append(last + (f" as {alias}" if alias else ""))
        else:
            where = T.FACADES.get(source) or new_module(origin)
            lines[where].append(renamed(origin, symbol) + (f" as {alias}" if alias else ""))
    prefix = "; "
    return prefix.join(f"from {m} import {', '.join(n)}" for m, n in lines.items())


def path_new(match: re.Match) -> str:
    text = match.group(0)
    rest = text.removeprefix("src/")
    lead = "src/" if text.startswith("src/") else ""
    if rest in T.DATA:
        return lead + T.DATA[rest]
    if rest.endswith(".py"):
        module = rest[:-3].replace("/", ".").removesuffix(".__init__")
        if module in MODS:
            new = new_module(module)
            suffix = "/__init__.py" if rest.endswith("__init__.py") else ".py"
            return lead + new.replace(".", "/") + suffix
        return text
    module = rest.replace("/", ".")
    if module in MODS:
        return lead + new_module(module).replace(".", "/")
    return text


SHORT = re.compile(r"(?<=`)([a-z_]+)\.([A-Za-z_]\w*)((?:\.\w+)*)(?=\(?\)?`)")
SHORT_PATH = re.compile(r"(`)([a-z_]+(?:/\w+)*\.py)(`)")


def short_new(match: re.Match) -> str:
    """A dotted name without the package's own, in backticks: ``faces.detect``."""
    first, second = f"ksame.{match.group(1)}", match.group(2)
    if first not in MODS or (f"{first}.{second}" not in MODS and resolve(first, second) is None):
        return match.group(0)
    return chain_new(f"ksame.{match.group(0)}").removeprefix("ksame.")


def short_path(path: str) -> str:
    module = "ksame." + path[:-3].replace("/", ".")
    return new_module(module).removeprefix("ksame.").replace(".", "/") + ".py" if module in MODS else path


def text_pass(text: str, bound: dict[str, str], python: bool) -> str:
    if not python:
        text = FROM.sub(from_new, text)
    text = PATH.sub(path_new, text)
    text = SHORT.sub(short_new, text)
    text = SHORT_PATH.sub(lambda m: m.group(1) + short_path(m.group(2)) + m.group(3), text)
    out, at = [], 0
    for match in CHAIN.finditer(text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip()
        if re.search(r"(from|import) $", line):
            continue
        out += [text[at : match.start()], chain_new(match.group(0))]
        at = match.end()
    text = "".join(out) + text[at:]
    return text


TOKEN = re.compile(r"``([A-Za-z_]\w*)((?:\.\w+)*)(\(\))?``")


def docs_pass(text: str, bound: dict[str, str], module: str | None, label: str) -> str:
    """Names in double backticks, in doctests, and of parameters in the docstrings of a Python file."""
    words = T.words_of(label)

    def tick(match: re.Match) -> str:
        name, tail = match.group(1), match.group(2)
        tail = ".".join(words.get(p, p) for p in tail.split("."))
        if name in bound:
            name = bound[name]
        elif name in words and name not in T.VALUES:
            name = words[name]
        elif module and tail and any(m.rsplit(".", 1)[-1] == name for m in MODS):
            old = next(m for m in MODS if m.rsplit(".", 1)[-1] == name)
            got = resolve(old, tail.strip(".").split(".")[0])
            if got and got[1]:
                return f"``{new_module(got[0]).rsplit('.', 1)[-1]}.{renamed(*got)}``"
        return f"``{name}{tail}{match.group(3) or ''}``"

    text = TOKEN.sub(tick, text)
    lines, extra, inside = [], {}, False
    source = text.split("\n")
    for i, line in enumerate(source):
        quotes = line.count('"""')
        inside = inside != (quotes % 2 == 1)
        if quotes:
            extra = {}
        if re.match(r"\s*(>>>|\.\.\.) ", line):
            for match in FROM.finditer(line):
                for name in match.group(2).split(","):
                    got = resolve(match.group(1), name.strip())
                    if got and got[1]:
                        extra[name.strip()] = renamed(*got)
            line = FROM.sub(from_new, line)
            for old, new in {**bound, **extra}.items():
                if old != new:
                    line = re.sub(rf"(?<![\w.\"'])(?<!import ){re.escape(old)}\b(?!\s*=[^=])(?![\"'])", new, line)
            for old, new in words.items():
                line = re.sub(rf"(?<=\.){re.escape(old)}\b|\b{re.escape(old)}(?==)", new, line)
        elif inside and not quotes:
            for old, new in bound.items():
                if old != new and old[0].isupper() and f"{old}(" in line:
                    line = re.sub(rf"(?<![\w.\"']){re.escape(old)}\(", f"{new}(", line)
            got = re.match(r"^(\s{4,})(\w+(?:, \w+)*)( : .*)?$", line)
            deeper = i + 1 < len(source) and len(source[i + 1]) - len(source[i + 1].lstrip()) > len(got.group(1)) if got else False
            if got and (got.group(3) or deeper):
                names = ", ".join(words.get(n, n) for n in got.group(2).split(", "))
                line = got.group(1) + names + (got.group(3) or "")
        lines.append(line)
    return "\n".join(lines)


def markdown_pass(text: str) -> str:
    def block(match: re.Match) -> str:
        code = match.group(2)
        if "ksame" not in code:
            return match.group(0)
        try:
            new = Rewriter(code, None, "md").run()
        except Exception:  # not Python after all
            return match.group(0)
        return match.group(1) + new + match.group(3)

    return re.sub(r"(```python\n)(.*?)(```)", block, text, flags=re.S)


# ---------------------------------------------------------------- phase 5: files


def merge(texts: list[str], module: str) -> str:
    """Put modules into one: the first one's docstring, all imports, one ``__all__``, all statements."""
    doc, imports, rest, exported, future = "", [], [], None, False
    seen: set[str] = set()
    for i, text in enumerate(texts):
        body = list(cst.parse_module(text).body)
        first = body[0]
        if isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], cst.Expr):
            if i == 0:
                doc = cst.Module(body=[first]).code
            body = body[1:]
        for stmt in body:
            code = cst.Module(body=[stmt]).code
            if is_import(stmt):
                if f"from {module} import" in code:
                    continue
                imports.append(code.strip("\n"))
            elif leading_names(stmt) == {"__all__"}:
                exported = (exported or []) + ast.literal_eval(ast.parse(code).body[0].value)
            elif code.strip() not in seen:
                rest.append(code)
                seen.add(code.strip())
    imports = list(dict.fromkeys(imports))
    imports.sort(key=lambda line: "__future__" not in line)
    listed = f"\n__all__ = {json.dumps(sorted(exported))}\n\n" if exported is not None and len(texts) and all("__all__" in t for t in texts) else "\n"
    return doc + "\n" + "\n".join(imports) + "\n" + listed + "\n".join(rest)


def git(*args: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *args], check=True, capture_output=True, text=True).stdout


def main() -> None:
    tracked = [ROOT / name for name in git("ls-files").splitlines()]
    for path in tracked:
        if path.suffix == ".py" and SRC in path.parents:
            name = module_of(path)
            MODS[name] = Mod(name, path, path.read_text(encoding="utf-8"))
    for old, plan in T.SPLITS.items():
        split(old, plan)
    known = set(T.MOVES) | set(T.SPLITS) | T.STAYS
    for name in sorted(MODS):
        if name not in known and "__" not in name.rsplit(".", 1)[-1]:
            note("NEW MODULE, not in the tables (left in place):", name)
    for key in T.RENAMES:
        module, symbol = key.split(":")
        if module in MODS and resolve(module, symbol) is None:
            note("STALE rename", key)
        elif module in MODS and (resolve(module, symbol) or ("", ""))[0].split("__")[0] != module:
            note("RENAME of an import", key)
    results: dict[str, str] = {}
    bounds: dict[str, dict[str, str]] = {}
    # twice: the first pass finds the bound names that strings refer to
    rewriters: dict[str, Rewriter] = {}
    for turn in range(2):
        for name, mod in sorted(MODS.items()):
            label = str(mod.path.relative_to(ROOT))
            if name not in rewriters:
                rewriters[name] = Rewriter(mod.text, name, label)
            rewriter = rewriters[name]
            rewriter.fresh()
            results[name], bounds[name] = rewriter.run(), rewriter.bound
        if turn == 0:
            NOTES[:] = [n for n in NOTES if n.startswith(("NEW", "STALE", "SPLIT", "RENAME"))]
    outside: dict[Path, str] = {}
    for path in tracked:
        if not path.exists() or SRC in path.parents and path.suffix == ".py":
            continue
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            rewriter = Rewriter(text, None, str(path.relative_to(ROOT)))
            new = rewriter.run()
            outside[path] = docs_pass(text_pass(new, {}, True), rewriter.bound, None, str(path.relative_to(ROOT)))
        elif path.suffix in (".md", ".toml", ".cff", "", ".yaml", ".yml", ".txt", ".html") and path.is_file():
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            if path.suffix == ".html":
                continue
            new = markdown_pass(text) if path.suffix == ".md" else text
            if path.name != "CHANGELOG.md":
                outside[path] = text_pass(new, {}, False)
    # files of the package
    written: set[Path] = set()
    moves: list[tuple[Path, Path]] = []
    contents: dict[Path, str] = {}
    pieces: dict[Path, list[tuple[bool, str]]] = defaultdict(list)
    for name, mod in MODS.items():
        target_name = new_module(name)
        if name in T.DROP:
            git("rm", "-q", "--cached", str(mod.path.relative_to(ROOT)))
            mod.path.unlink()
            continue
        package = mod.package and target_name not in T.AS_MODULE
        target = path_of(target_name, package)
        text = docs_pass(text_pass(results[name], {}, True), bounds[name], name, str(mod.path.relative_to(ROOT)))
        pieces[target].append((not mod.package and "__" in name.rsplit(".", 1)[-1], text))
        if mod.path.exists() and mod.path != target:
            moves.append((mod.path, target))
    for target, some in pieces.items():
        texts = [text for _, text in sorted(some, key=lambda one: (one[1].startswith('"""' + '"""'), one[0]))]
        contents[target] = texts[0] if len(texts) == 1 else merge(texts, module_of(target))
    for old, new in T.DATA.items():
        if (SRC / old).exists():
            moves.append((SRC / old, SRC / new))
            if SRC / old in outside:
                outside[SRC / new] = outside.pop(SRC / old)
    for old, new in T.TEST_MOVES.items():
        if (ROOT / old).exists():
            moves.append((ROOT / old, ROOT / new))
            if ROOT / old in outside:
                outside[ROOT / new] = outside.pop(ROOT / old)
    # through temporary names: an old place may be another's new one
    for i, (old, _) in enumerate(moves):
        git("mv", str(old), str(ROOT / f".moving-{i}"))
    for i, (_, new) in enumerate(moves):
        new.parent.mkdir(parents=True, exist_ok=True)
        git("mv", str(ROOT / f".moving-{i}"), str(new))
    for target, text in contents.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.add(target)
    for package, text in T.PACKAGES.items():
        path = path_of(package, True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path, text in outside.items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for name, old, new in T.TEXTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if old not in text:
            note("TEXT not found", name, repr(old[:60]))
            continue
        path.write_text(text.replace(old, new), encoding="utf-8")
    for key, doc in T.DOCSTRINGS.items():
        module, name = key.split(":")
        path = path_of(module, False)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        new = re.sub(rf"(def {name}\([^)]*\)[^:]*:\n)(?!\s*\"\"\")", rf'\1    """{doc}"""\n', text)
        if new != text:
            path.write_text(new, encoding="utf-8")
        else:
            note("DOCSTRING not added", key)
    git("add", "-A")
    for name in git("ls-files").splitlines():
        path = ROOT / name
        rules = [(p, r) for g, p, r in T.TEXT_RE if fnmatch.fnmatch(name, g)]
        if path.suffix in (".npz", ".png", ".jpg") or name == "CHANGELOG.md" or not path.is_file():
            continue
        text = new = path.read_text(encoding="utf-8")
        for pattern, replacement in rules:
            new = re.sub(pattern, replacement, new)
        if new != text:
            path.write_text(new, encoding="utf-8")
    path = ROOT / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("[[tool.importlinter.contracts]]")] + T.CONTRACTS, encoding="utf-8")
    for folder in sorted((p for p in (SRC / "ksame").rglob("*") if p.is_dir()), reverse=True):
        if folder.name == "__pycache__" or not any(p.name != "__pycache__" for p in folder.iterdir()):
            subprocess.run(["rm", "-r", str(folder)], check=True)
    git("add", "-A")
    print("\n".join(NOTES))


main()
