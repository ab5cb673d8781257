"""Law 8: no word that people read is out of a translator's reach."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import echomq_django
from tests.admin.test_registration import HERE, TEMPLATES

SOURCES = [*sorted((HERE / "admin").glob("*.py")), HERE / "models.py"]
SCRIPTS = sorted((HERE / "static").rglob("*.js"))
MARKS = {"_", "gettext", "ngettext", "gettext_lazy", "pgettext_lazy"}
# What is read by programmers, servers and programs.
UNREAD = {"TypeError", "ValueError", "PayloadError", "NotImplementedError", "warning", "RuntimeError"}


def called(node: ast.AST) -> str:
    name = getattr(node, "func", None)
    return getattr(name, "id", getattr(name, "attr", ""))


def unmarked(node: ast.AST) -> Iterator[str]:
    """Give the texts of a program, but those that are marked, raised or documentation."""
    if called(node) in MARKS | UNREAD:
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from unmarked(child)


def is_prose(text: str) -> bool:
    """Say whether a text has two words that stand beside each other, or is one with a capital letter."""
    words = re.sub(r"<[^>]*>|%\(\w+\)s|\{.*?\}", " ", text)
    return bool(re.search(r"[A-Za-z]{2,},? [A-Za-z]{2,}", words) or re.fullmatch(r"[A-Z][a-z]+", words))


KNOWN = {"Content-Disposition", "Can pause and resume queue", "Can drain queue", "Can view job payload",
         "Can requeue job", "Can run scheduled job now", "Media", "Meta", "Job", "Queue", "Worker"}  # fmt: skip
"""Names of permissions, which Django stores as they are in the code."""


@pytest.mark.parametrize("source", SOURCES, ids=lambda each: each.name)
def test_each_text_of_the_program_can_be_translated(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    annotations = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in KNOWN}
    assert [text for text in unmarked(tree) if is_prose(text) and text not in annotations] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('title = "Run now"', ["Run now"]),
        ('title = f"{name}: not there"', [": not there"]),
        ('@admin.display(description="Queue")\ndef f(): pass', ["Queue"]),
        ('title = _("Run now")\nword = ngettext("%s job is", "%s jobs are", 2)', []),
        ('"""Say what this is."""\nraise ValueError("that is none")', []),
        ('name = "queue_changelist"', []),
    ],
)
def test_a_text_that_is_not_marked_is_seen(source: str, found: list[str]) -> None:
    assert [text for text in unmarked(ast.parse(source)) if is_prose(text)] == found


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: str(each.relative_to(HERE)))
def test_each_attribute_of_a_template_that_is_read_can_be_translated(template: Path) -> None:
    text = re.sub(r"{%.*?%}|{{.*?}}", "", template.read_text(encoding="utf-8"), flags=re.S)
    read = re.findall(r'\s(?:title|alt|placeholder|aria-label|value|data-\w+)="([^"]*)"', text)
    assert [each for each in read if re.search("[A-Za-z]", each)] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.name)
def test_a_script_has_no_words_of_its_own_and_nothing_inline(script: Path) -> None:
    text = re.sub(r"//[^\n]*", "", script.read_text(encoding="utf-8"))
    texts = set(re.findall(r'"([^"]*)"', text)) - {"use strict"}
    assert not [each for each in texts if is_prose(each) and "," not in each]  # a comma is a selector's
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
                      ".style", "setAttribute", "fetch(", "XMLHttpRequest", "aria-live", "http"):  # fmt: skip
        assert forbidden not in text


@pytest.mark.slow
def test_makemessages_finds_nothing_to_complain_of_and_every_text(tmp_path: Path) -> None:
    if not shutil.which("xgettext"):
        if os.environ.get("CI"):
            raise RuntimeError("gettext is not installed")
        pytest.skip("gettext is not installed")
    ours = tmp_path / "echomq_django"
    shutil.copytree(Path(echomq_django.__file__).parent, ours, ignore=shutil.ignore_patterns("__pycache__"))
    (ours / "locale").mkdir()
    command = [sys.executable, "-W", "error", "-m", "django", "makemessages", "-l", "de", "--no-obsolete"]
    done = subprocess.run(command, cwd=ours, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "warning" not in done.stdout
    text = (ours / "locale/de/LC_MESSAGES/django.po").read_text(encoding="utf-8")
    text = re.sub(r'"\n"', "", text)
    for words in ("Export as JSON Lines", "Refresh", "{n} s", "Searched %(looked)s of %(total)s jobs.", "Requeue"):
        assert f'msgid "{words}"' in text, words
    assert "fuzzy" not in text.partition('msgstr ""\n\n')[2]
