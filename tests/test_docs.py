"""The reference says what the code does: nothing is missing from it, and nothing in it is made up."""

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from echomq_django import (
    backend,
    conf,
    envelope,
    exceptions,
    failure,
    jobs,
    keys,
    payload,
    scripts,
    sending,
    tasks,
    transitions,
)
from echomq_django.job import Job, Location
from echomq_django.tasks import context, results
from tests.tasks import echo

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
COMMANDS = sorted(path.stem for path in (ROOT / "echomq_django/management/commands").glob("echomq_*.py"))

sys.path.insert(0, str(DOCS / "_ext"))
import script_headers  # noqa: E402

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def read(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """Give a page's part under a heading, up to the next one of its level."""
    _, found, rest = text.partition(f"\n## {title}\n")
    assert found, f"there is no section {title!r}"
    return rest.partition("\n## ")[0]


def rows(text: str) -> Iterator[list[str]]:
    """Give the cells of each table row whose first cell begins with code."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def first_cells(text: str) -> set[str]:
    return {name for cells in rows(text) for name in re.findall(r"`([^`]+)`", cells[0])}


# --- settings ---------------------------------------------------------------------------------------------------


def test_every_key_of_a_server_is_documented_and_no_other():
    text = section(read("settings"), "A server").partition("\n### ")[0]
    assert first_cells(text) == set(conf._ENTRY_KEYS)


def test_every_scheme_is_documented_and_no_other():
    text = read("settings").partition("\n### LOCATION\n")[2].partition("\n### ")[0]
    assert set(re.findall(r"`(\w+)://", text)) == set(conf.SCHEMES)


def test_every_key_of_a_queue_is_documented_with_its_default_and_no_other():
    documented = {cells[0].strip("`"): cells[2] for cells in rows(section(read("settings"), "A queue"))}
    actual = {field.name.upper(): field.default for field in dataclasses.fields(conf.QueueConfig)}
    assert documented.keys() == actual.keys()
    assert actual.pop("RESULT_TTL") is None
    assert documented["RESULT_TTL"].startswith(shown(conf.TASK_RESULT_TTL))
    for name, default in actual.items():
        assert documented[name].startswith(shown(default, '"')), name


def shown(default: Any, quote: str = "") -> str:
    """Write a default as the tables do; a whole number of seconds without a point."""
    return f"`{quote}{default}{quote}`" if isinstance(default, str) else f"`{default:.15g}`"


def test_the_wire_version_in_the_reference_is_the_default():
    assert f'`"{conf.WIRE_VERSION}"`' in read("settings")


# --- checks -----------------------------------------------------------------------------------------------------


def test_every_check_is_documented_and_no_other():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "echomq_django").rglob("*.py"))
    assert first_cells(read("checks")) == set(re.findall(r"echomq\.[EW]\d{3}", code))


@pages
def test_a_page_names_only_checks_that_exist(page):
    assert set(re.findall(r"echomq\.[EW]\d{3}", page.read_text(encoding="utf-8"))) <= first_cells(read("checks"))


# --- commands ---------------------------------------------------------------------------------------------------


def test_every_command_is_documented_and_no_other():
    assert sorted(re.findall(r"^## (\w+)$", read("commands"), re.MULTILINE)) == COMMANDS


def options(command: str) -> list[argparse.Action]:
    """Give the options that are the command's own, and not those of every Django command."""
    django_has = {action.dest for action in BaseCommand().create_parser("manage.py", command)._actions}
    parser = load_command_class("echomq_django", command).create_parser("manage.py", command)
    return [action for action in parser._actions if action.dest not in django_has]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_documented_with_its_default_and_no_other(command):
    documented = {cells[0].strip("`"): cells[1] for cells in rows(section(read("commands"), command))}
    actual = {flag: action for action in options(command) for flag in action.option_strings}
    assert documented.keys() == actual.keys()
    for flag, action in actual.items():
        if action.default and action.default is not True:
            assert documented[flag] == shown(action.default)


@pages
def test_a_page_uses_only_options_that_exist(page):
    known = {command: {flag for action in options(command) for flag in action.option_strings} for command in COMMANDS}
    everywhere = {"--verbosity"}
    for line in page.read_text(encoding="utf-8").splitlines():
        if found := re.search(r"manage\.py (echomq_\w+)([^`]*)", line):
            assert found[1] in known, line
            assert set(re.findall(r"--[\w-]+", found[2])) <= known[found[1]] | everywhere, line


# --- transitions ------------------------------------------------------------------------------------------------


def test_the_transitions_are_made_from_every_script():
    assert script_headers.MARK in read("transitions")
    assert {script.name for script in scripts.ALL} == {
        path.stem for path in (ROOT / "echomq_django/scripts").glob("*.lua") if _is_script(path)
    }


def _is_script(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith("#!lua")


@pytest.mark.parametrize("script", scripts.ALL, ids=lambda script: script.name)
def test_a_script_s_section_has_its_move_its_parameters_and_its_reply(script):
    header = script_headers.read(script)
    assert header.verb == script.name
    assert [name for _, _, name, *_ in header.parameters] == [
        *script.keys,
        *script.args,
        *([script.group] if script.group else []),
    ]
    text = script_headers.section(script)
    assert text.startswith(f"## {script.name}\n")
    assert all(f"| `{name}` |" in text for _, _, name, *_ in header.parameters)
    assert header.text
    assert "\nReturns " in text


def test_the_move_of_every_script_is_between_known_places():
    places = {*Location, "nowhere", "gone"} | {"workers"} | {"running", "paused"}  # jobs', a worker's, a queue's
    for header in map(script_headers.read, scripts.ALL):
        assert {*header.start.split(" | "), *header.end.split(" | ")} <= places, header.verb


# --- places and keys --------------------------------------------------------------------------------------------


def test_every_place_is_documented():
    lifecycle = (DOCS / "explanation/lifecycle.md").read_text(encoding="utf-8").partition("\n## ")[0]
    _, _, *table = re.findall(r"^\|(.+?)\|", lifecycle, re.MULTILINE)
    assert [cell.strip() for cell in table] == [*Location, "gone"]
    for place in Location:
        assert f"`emq:{{q}}:{place}`" in read("keys")


def test_every_key_is_documented_and_no_other():
    names = keys.of("q")
    ends = {
        names.job_root: "<id>",
        names.result_root: "<id>",
        names.receipt_root: "<call>",
        names.lane_root: "<group>:pending",
        names.minute_root: "<minute>",
    }
    of_queue = {key + ends.get(key, "") for key in dataclasses.astuple(names) if key != "q"}
    lua = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "echomq_django/scripts").glob("*.lua"))
    of_queue |= {names.row("<id>") + suffix for suffix in re.findall(r'"(:\w+)"', lua) if suffix != ":pending"}
    of_queue |= {names.result_errors("<id>"), names.result_logs("<id>")}
    of_server = {keys.VERSION, keys.QUEUES, keys.WORKERS, keys.worker("<worker>")}
    assert first_cells(section(read("keys"), "Of a queue")) == of_queue
    assert first_cells(section(read("keys"), "Of the server")) == of_server


def test_the_times_and_bounds_in_the_reference_are_those_of_the_code():
    text = read("keys")
    assert f"kept for {transitions.RECEIPT_TTL_MS // 1000} s" in text
    assert f"sending for\n{sending.RESEND_FOR:g} s" in text
    assert f"at most {transitions.ERRORS_KEPT};" in text
    assert f"at most {transitions.LOGS_KEPT};" in text
    assert f"sent again for {sending.RESEND_FOR:g} s" in read("jobs")
    assert f"at most {failure.TRACEBACK_LIMIT:,}\ncharacters" in text


def test_every_field_of_a_row_is_documented():
    documented = first_cells(section(read("keys"), "The row"))
    ours = {field.name for field in dataclasses.fields(Job)} - {"id", "queue", "location", "time", "errors"}
    assert ours <= documented
    lua = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "echomq_django/scripts").glob("*.lua"))
    assert all(f'"{name}"' in lua for name in documented)


# --- tasks ------------------------------------------------------------------------------------------------------


def test_every_argument_of_the_decorator_is_documented_with_its_default_and_no_other():
    documented = {cells[0].strip("`"): cells[1] for cells in rows(section(read("tasks"), "The decorator"))}
    of_the_code = set(inspect.signature(tasks.EchoMQTask).parameters) - {"func", "run_after", "delay"}
    assert documented.keys() == of_the_code
    for name, default in documented.items():
        value = getattr(echo, name)
        assert default == (f'`"{value}"`' if isinstance(value, str) else f"`{value}`"), name


def test_every_option_of_the_backend_is_documented_and_no_other():
    assert first_cells(section(read("tasks"), "The TASKS setting")) == set(backend.OPTIONS)


def test_every_key_of_a_task_s_payload_is_documented_and_no_other():
    written = {"v", *(field.name for field in dataclasses.fields(envelope.Envelope))}
    assert first_cells(section(read("tasks"), "The payload")) == written


def test_every_status_of_a_result_is_documented_and_no_other():
    text = section(read("tasks"), "Results").partition("\n\nOtherwise")[0]
    assert first_cells(text) == set(results.TaskResultStatus.names)


def test_every_method_of_the_context_is_documented():
    public = {name for name in vars(tasks.EchoMQContext) if not name.startswith("_")} - {"lease"}
    listed = re.search(r"autoclass:: EchoMQContext\(\)\n   :members: ([\w, ]+)\n", read("tasks"))[1]
    assert set(listed.split(", ")) == public


def test_the_bounds_of_tasks_in_the_reference_are_those_of_the_code():
    text = read("tasks")
    assert f"at most {results.QUEUE_NAME_LIMIT} characters" in text
    assert f"at most {payload.KEPT_LIMIT:,} bytes" in text
    assert f"the last {transitions.LOGS_KEPT}, of {context.LINE_LIMIT:,} characters each" in text
    assert f"the latest {transitions.ERRORS_KEPT} |" in text


# --- the service and its exceptions -----------------------------------------------------------------------------


def directives(page: str, kind: str) -> set[str]:
    return set(re.findall(rf"^\.\. {kind}:: (\w+)", read(page), re.MULTILINE))


def test_every_public_function_of_the_service_is_documented_and_no_other():
    public = {name for name, value in vars(jobs).items() if inspect.isfunction(value)}
    assert directives("jobs", "autofunction") == public


def test_every_class_of_the_service_is_documented():
    classes = {name for name in jobs.__all__ if inspect.isclass(getattr(jobs, name))}
    assert classes <= {name.removesuffix("()") for name in directives("jobs", "autoclass")}


def test_every_exception_is_documented_and_no_other():
    actual = {
        name
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and value.__module__ == exceptions.__name__
    }
    assert directives("exceptions", "autoexception") == actual


def test_what_a_function_is_said_to_raise_exists():
    for name in re.findall(r"[A-Z]\w+", " ".join(re.findall(r":raises ([\w, ]+):", read("jobs")))):
        assert hasattr(exceptions, name) or name in ("ValueError", "TypeError")


# --- every page -------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page, as Sphinx and GitHub make them of headings."""
    text = page.read_text(encoding="utf-8")
    if page.name == "transitions.md":
        text = text.replace(script_headers.MARK, "\n".join(map(script_headers.section, scripts.ALL)))
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


@pages
def test_every_relative_link_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.is_file(), f"{target}: there is no such file"
        assert not anchor or anchor in anchors(found), f"{target}: there is no such heading"


@pages
def test_a_page_shows_no_path_of_somebody_s_machine(page):
    assert not re.findall(r"(?<![\w.])/(?:home|work|root|Users|tmp/pytest)\b\S*", page.read_text(encoding="utf-8"))


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        assert name == "index" or re.search(rf"^{name}$", index, re.MULTILINE), name
