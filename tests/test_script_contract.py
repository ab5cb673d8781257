"""Every script's header is its signature: held here against its body and against the loader."""

import hashlib
import re
from collections.abc import Iterator
from importlib import resources

import pytest
import redis

from echomq_django import scripts
from echomq_django.scripts import Script
from tests.places import OWNER, A, K

SCRIPTS = pytest.mark.parametrize("script", scripts.ALL, ids=lambda script: script.name)
TYPES = {"zset", "list", "hash", "set", "string", "root"}
PARAMETER = re.compile(r"-- (KEYS|ARGV)\[(\d+)(\.\.)?\] (\w+) *(?:\(([\w, ]+)\))?  *(.+)")
READS = {"recover", "lapsed", "census"}
PLACES_AND_MORE = {"nowhere", "pending", "active", "schedule", "dead", "gone", "workers", "running", "paused"}


def text_of(name: str) -> str:
    return (resources.files(scripts.__name__) / f"{name}.lua").read_text(encoding="utf-8")


def split(script: Script) -> tuple[str, list[str], list[str]]:
    """Give the first line, the header's lines, and the lines of code."""
    first_line, *lines = text_of(script.name).splitlines()
    header = []
    while lines and lines[0].startswith("--"):
        header.append(lines.pop(0))
    code = [re.sub(r"--.*", "", line).rstrip() for line in lines]
    return first_line, header, [line for line in code if line]


def parameters(script: Script) -> list[tuple[str, int, bool, str, str, str]]:
    found = []
    for line in split(script)[1]:
        if match := PARAMETER.fullmatch(line):
            kind, number, many, name, shape, rest = match.groups()
            found.append((kind, int(number), bool(many), name, shape or "", rest))
    return found


def returns(script: Script) -> str:
    header = "\n".join(split(script)[1])
    return header[header.index("-- Returns ") :]


def bindings(script: Script) -> tuple[dict[str, str], str]:
    """Give what the first lines bind, name to expression, and the code after them."""
    code = split(script)[2]
    bound: dict[str, str] = {}
    while code and re.search(r"\b(KEYS|ARGV|groups)\b", code[0]):
        names, _, values = code.pop(0).removeprefix("local ").partition(" = ")
        bound.update(zip(names.split(", "), _expressions(values), strict=True))
    return bound, "\n".join(code)


def _expressions(values: str) -> Iterator[str]:
    """Split at the commas that are in no brackets."""
    depth, start = 0, 0
    for at, character in enumerate(values):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            yield values[start:at].strip()
            start = at + 1
    yield values[start:].strip()


def test_every_lua_file_is_a_script_or_shared_by_scripts() -> None:
    files = {path.name.removesuffix(".lua") for path in resources.files(scripts.__name__).iterdir()}
    needed = {name for script in scripts.ALL for name in re.findall(r"\w+", _needs(script))}
    lua = {name for name in files if "." not in name and not name.startswith("__")}
    assert lua == {script.name for script in scripts.ALL} | needed


def _needs(script: Script) -> str:
    found = re.findall(r"^-- Needs: (.+)$", "\n".join(split(script)[1]), re.MULTILINE)
    return found[0] if found else ""


def test_every_script_is_in_the_list_once_under_its_own_name() -> None:
    assert len({script.name for script in scripts.ALL}) == len(scripts.ALL) == len(scripts.BY_SHA)
    assert all(getattr(scripts, script.name) is script for script in scripts.ALL)
    assert all(scripts.BY_SHA[script.sha] is script for script in scripts.ALL)


@SCRIPTS
def test_a_header_begins_with_the_verb_and_the_places(script: Script) -> None:
    first = split(script)[1][0]
    match = re.fullmatch(r"-- (\w+): ([a-z |]+) -> ([a-z |]+)", first)
    assert match, first
    assert match[1] == script.name
    assert {*match[2].split(" | "), *match[3].split(" | ")} <= PLACES_AND_MORE


@SCRIPTS
def test_parameters_are_numbered_without_gaps_and_only_the_last_is_repeated(script: Script) -> None:
    found = parameters(script)
    for kind in ("KEYS", "ARGV"):
        numbers = [number for which, number, *_ in found if which == kind]
        assert numbers == list(range(1, len(numbers) + 1))
    assert [many for _, _, many, *_ in found if many] in ([], [True])
    assert not any(many for _, _, many, *_ in found[:-1])
    assert len({name for _, _, _, name, *_ in found}) == len(found)


@SCRIPTS
def test_no_line_of_a_header_that_looks_like_a_parameter_is_missed(script: Script) -> None:
    looks = [line for line in split(script)[1] if "KEYS[" in line or "ARGV[" in line]
    assert len(looks) == len(parameters(script))


@SCRIPTS
def test_every_key_has_a_type_and_every_parameter_a_meaning(script: Script) -> None:
    for kind, _, many, name, shape, rest in parameters(script):
        if kind == "KEYS":
            type_, _, meaning = rest.partition(" ")
            assert type_ in TYPES, name
            assert meaning.strip(), name
            assert (type_ == "root") == name.endswith("_root")
        assert rest.strip(), name
        assert bool(shape) == many, name


@SCRIPTS
def test_the_loader_reads_the_names_that_the_header_gives(script: Script) -> None:
    found = parameters(script)
    assert script.keys == tuple(name for kind, _, _, name, *_ in found if kind == "KEYS")
    assert script.args == tuple(name for kind, _, many, name, *_ in found if kind == "ARGV" and not many)
    repeated = [(name, len(shape.split(","))) for _, _, many, name, shape, _ in found if many]
    assert [(script.group, script.width)] == (repeated or [(None, 0)])


@SCRIPTS
def test_the_first_lines_bind_every_parameter_to_its_name_and_nothing_else(script: Script) -> None:
    bound, rest = bindings(script)
    for kind, number, many, name, shape, _ in parameters(script):
        assert name in bound
        value = bound.pop(name)
        if many:
            assert value == f"groups({number}, {len(shape.split(','))})"
        else:
            assert re.findall(r"\w+\[\d+\]", value) == [f"{kind}[{number}]"], name
    assert bound == {}
    assert not re.search(r"\b(KEYS|ARGV|groups)\b", rest)


@SCRIPTS
def test_every_parameter_is_used(script: Script) -> None:
    _, rest = bindings(script)
    for _, _, _, name, *_ in parameters(script):
        assert re.search(rf"\b{name}\b", rest), name


@SCRIPTS
def test_every_word_that_the_header_promises_is_said(script: Script) -> None:
    words = re.findall(r'"(\w+)"', returns(script))
    for word in words:
        assert re.search(rf'"{word}"', "\n".join(split(script)[2])), word


@SCRIPTS
def test_every_word_that_is_said_is_promised(script: Script) -> None:
    promised = set(re.findall(r'"(\w+)"', returns(script)))
    said = set()
    for line in split(script)[2]:
        if match := re.match(r" *(?:return|(?:words|verdicts)\[i\].* =) (.*)", line):
            said |= set(re.findall(r'"([a-z]+)"', match[1]))
    assert said <= promised


@SCRIPTS
def test_an_error_is_never_a_word(script: Script) -> None:
    assert "error_reply" not in script.source


@SCRIPTS
def test_a_script_is_one_page(script: Script) -> None:
    assert len(split(script)[2]) <= 80


@SCRIPTS
def test_every_loop_has_a_bound(script: Script) -> None:
    _, rest = bindings(script)
    for line in re.findall(r"^ *while\b.*$", rest, re.MULTILINE):
        assert re.search(r"< 500\b", line), line
    assert "repeat" not in re.findall(r"\w+", rest)
    most = "500" if script.name not in READS else "500|1000"  # looking is cheaper than moving
    for _, _, many, name, _, meaning in parameters(script):
        if not many and name in ("limit", "size"):
            assert re.search(rf"\b({most})\b", meaning), name


def test_only_admission_is_refused_on_a_full_server() -> None:
    flags = {script.name: split(script)[0] for script in scripts.ALL}
    assert flags.pop("enqueue") == "#!lua"
    assert {name for name, line in flags.items() if line == "#!lua flags=no-writes"} == READS
    assert {line for name, line in flags.items() if name not in READS} == {"#!lua flags=allow-oom"}


@SCRIPTS
def test_what_is_shared_stands_between_the_flags_and_the_script(script: Script) -> None:
    own = text_of(script.name)
    flags, rest = own.split("\n", 1)
    assert script.source.startswith(flags + "\n")
    assert script.source.endswith(rest)
    shared = script.source.removeprefix(flags).removesuffix(rest).strip()
    assert shared == "\n".join(text_of(name) for name in re.findall(r"\w+", _needs(script))).strip()


@SCRIPTS
def test_no_user_data_is_read_as_json(script: Script) -> None:
    assert "cjson.decode" not in script.source
    assert "cmsgpack" not in script.source


@SCRIPTS
def test_every_script_loads_under_the_sha_that_we_computed(client: redis.Redis, script: Script) -> None:
    assert client.script_load(script.source) == script.sha
    assert script.sha == hashlib.sha1(script.source.encode()).hexdigest()
    assert Script(script.name).sha == script.sha


@SCRIPTS
def test_a_command_names_the_keys_and_then_the_arguments_in_the_order_of_the_header(script: Script) -> None:
    values = {name: f"<{name}>" for name in (*script.keys, *script.args)}
    tail = [f"<{number}>" for number in range(2 * script.width)]
    repeated = {script.group: tail} if script.group else {}
    expected = [f"<{name}>" for name in (*script.keys, *script.args)]
    assert script.command(**values, **repeated) == (
        "EVALSHA", script.sha, len(script.keys), *expected, *tail,
    )  # fmt: skip


@SCRIPTS
def test_a_missing_or_an_unknown_name_is_a_type_error(script: Script) -> None:
    values = dict.fromkeys((*script.keys, *script.args), "x") | ({script.group: ()} if script.group else {})
    script.command(**values)
    for name in values:
        with pytest.raises(TypeError, match=rf"{script.name}: missing \['{name}'\]"):
            script.command(**{other: value for other, value in values.items() if other != name})
    with pytest.raises(TypeError, match=r"unknown \['nonsense'\]"):
        script.command(**values, nonsense="x")


@SCRIPTS
def test_a_group_that_is_cut_short_or_no_list_is_a_type_error(script: Script) -> None:
    if script.group is None:
        return
    values = dict.fromkeys((*script.keys, *script.args), "x")
    ragged = [["x"] * (script.width + 1)] if script.width > 1 else []
    for tail in (*ragged, "x" * script.width, b"x" * script.width, 5, 1.5):
        with pytest.raises(TypeError, match=f"{script.group} takes a flat list in groups of {script.width}"):
            script.command(**values, **{script.group: tail})


def test_a_script_says_which_it_is() -> None:
    assert repr(scripts.extend) == f"<Script extend {scripts.extend.sha[:8]}>"
    command = scripts.extend.command(active=K.active, job_root=K.job_root, lease=1, claims=[A, 1, OWNER])
    assert command == ("EVALSHA", scripts.extend.sha, 2, K.active, K.job_root, 1, A, 1, OWNER)
