"""Names and hints follow the project's language: no banned words, and every hint begins with a verb.

Run as a script on files or folders, it lists what it finds: `python tests/unit/test_language.py src/gapless/query`.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "scripts", "examples")
EXEMPT = {Path(__file__).name, "cheats.py"}


def listed(text):
    """The words of a text."""
    return frozenset(text.split())


# Words of a private dialect. None may be a part of a snake-case or camel-case name.
BANNED_PARTS = listed("""
    told tell tells telling foretell foretold law laws lawful lot lots mend mended mends lies whoever whatever shaken
    lifted thirst scarce taught tutor tutors school schools remade spoken speaks dealt dealing rung rungs
    says said utter uttered behold hither whence wherever begone nobody somebody
""")
# Words that say nothing when they are the whole name.
BANNED_NAMES = listed("""
    one ones each own fine aims mixing books freely closely hold holds marks inside whom thing things
    stuff way ways it them they words
""")
# Names of tests are sentences; other names are not: a name that begins so is a clause.
CLAUSES = ("what_", "who_", "how_it", "that_is", "where_it", "which_are")
VERBS = listed("""
    add ask call check choose close compare copy correct declare drop end estimate fit give increase install join keep
    leave list load lower measure move name open pass put quote read reduce release remove rename repeat replace
    report restore run sample save select set spend split start use wait write
""")


def sources(paths=None):
    """All Python files of the project, or those below some paths."""
    roots = [ROOT / folder for folder in FOLDERS] if paths is None else [Path(path).absolute() for path in paths]
    files = {file for root in roots for file in ([root] if root.is_file() else root.rglob("*.py"))}
    return sorted(file for file in files if file.name not in EXEMPT)


def names(tree):
    """Every identifier that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str()):
                yield node.asname, node.lineno
            case ast.MatchAs(name=str()) | ast.MatchStar(name=str()):
                yield node.name, node.lineno
            case ast.ExceptHandler(name=str()):
                yield node.name, node.lineno


def keys(tree):
    """Every text by which a module reads or writes an item, with its line: such keys end up in files."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys=found):
                pass
            case ast.DictComp(key=key) | ast.Subscript(slice=key):
                found = [key]
            case _:
                continue
        for key in found:
            parts = key.values if isinstance(key, ast.JoinedStr) else [key]
            text = " ".join(part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is str)
            if re.fullmatch(r"[\w./]+", text):
                yield text, key.lineno


def words(name):
    """The words of an identifier, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def banned(name):
    """Why a name is not allowed, or an empty text."""
    bare = name.strip("_").lower()
    if found := BANNED_PARTS.intersection(words(name)):
        return f"has the word {', '.join(sorted(found))}"
    if bare in BANNED_NAMES:
        return "says nothing"
    if bare.startswith(CLAUSES):
        return "is a clause"
    return ""


def banned_names(file):
    """All banned names of a file, and of the file itself."""
    found = [(1, file.stem, why)] if (why := banned(file.stem)) else []
    for name, line in names(ast.parse(file.read_text(encoding="utf-8"))):
        if why := banned(name):
            found.append((line, name, why))
    return found


def banned_keys(tree):
    """All banned keys of a module."""
    return [(line, key, why) for key, line in keys(tree) if (why := banned(key.strip("./")))]


def opening(node):
    """The text with which a hint begins; None where it is not written there."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text
        case ast.Call(func=ast.Name(id="Hint"), args=[first, *_]):
            return opening(first)
        case ast.BinOp(left=left):
            return opening(left)
        case ast.IfExp(body=body):
            return opening(body)
    return None


def hints(file):
    """All hints that a file writes out, with their lines: keyword arguments and assignments called hint."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.keyword(arg="hint", value=value) | ast.Assign(targets=[ast.Name(id="hint")], value=value):
                found = [value, value.orelse] if isinstance(value, ast.IfExp) else [value]
                for part in found:
                    if (text := opening(part)) is not None:
                        yield part.lineno, text


def verbless(file):
    """Hints of a file that do not begin with a verb of the list."""
    return [(line, text) for line, text in hints(file) if text.split(maxsplit=1)[:1] and text.split()[0] not in VERBS]


def test_names_have_no_banned_words():
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name} {why}" for file in sources() for line, name, why in banned_names(file)
    ]
    assert not found, "\n".join(found)


def test_keys_in_files_have_no_banned_words():
    found = [
        f"{file.relative_to(ROOT)}:{line}: {key} {why}"
        for file in sources([ROOT / "src"])
        for line, key, why in banned_keys(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line", ['x = {"told": 1}', 'x = {f"law.{i}": i for i in y}', 'x[f"inside/{i}"] = 1', 'x = y["one"]']
)
def test_a_banned_key_is_found(line):
    assert len(banned_keys(ast.parse(line))) == 1
    assert not banned_keys(ast.parse('x = {"description": y["rates"][0], **z}'))


def test_every_hint_begins_with_a_verb():
    found = [f"{file.relative_to(ROOT)}:{line}: {text}" for file in sources(["src"]) for line, text in verbless(file)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["told", "NoLaw", "_lots", "one", "_inside", "what_is_left"])
def test_a_banned_name_is_found(name):
    assert banned(name)


@pytest.mark.parametrize("name", ["one_way", "lawn", "allotment", "within_bin_counts", "test_what_it_does"])
def test_an_ordinary_name_is_allowed(name):
    assert not banned(name)


def test_a_hint_without_a_verb_is_found(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('raise E("x", hint="one of the two")\nraise E("x", hint=Hint("pass a larger ", spend))\n')
    assert verbless(file) == [(1, "one of the two")]


if __name__ == "__main__":
    paths = sys.argv[1:] or None
    found = [f"{file}:{line}: {name} {why}" for file in sources(paths) for line, name, why in banned_names(file)]
    found += [f"{file}:{line}: hint {text!r}" for file in sources(paths) for line, text in verbless(file)]
    sys.exit("\n".join(found))
