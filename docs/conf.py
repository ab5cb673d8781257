"""How Sphinx builds these pages: `make docs`."""

import re
import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

# autodoc imports modules that import Django's settings; no server is asked.
APPS = ["admin", "auth", "contenttypes", "messages", "sessions"]
settings.configure(
    SECRET_KEY="only for the docs",
    USE_TZ=True,
    INSTALLED_APPS=[*(f"django.contrib.{app}" for app in APPS), "echomq_django"],
)
django.setup()

project = "echomq-django"
author = "the echomq-django authors"
copyright = author
html_title = project

extensions = ["myst_parser", "sphinx.ext.autodoc", "script_headers"]
exclude_patterns = ["_build"]
html_theme = "furo"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True


def _backticks(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Read `x` in a docstring as code; reStructuredText wants two backticks for that."""
    lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _backticks)
