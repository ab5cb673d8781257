"""The pages on sites of a project's own, under a theme, under a strict policy, and in other languages."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.template import engines
from django.test import Client
from django.urls import path
from django.utils import translation

import echomq_django
from echomq_django import jobs
from echomq_django.admin import register
from echomq_django.models import Job, Queue, Worker
from tests.admin import filling, scene
from tests.admin.reading import Page, sent

pytestmark = pytest.mark.slow

WORKER = "web-1:1:a"
HERE = Path(echomq_django.__file__).parent
TEMPLATES = sorted((HERE / "templates").rglob("*.html"))


def fill(client: redis.Redis) -> list[str]:
    """Put something on each page; the pages."""
    dead = filling.dead(queue="mail")
    filling.pending(queue="mail")
    filling.scheduled(queue="mail")
    claim = filling.active(queue="mail")
    worker = claim.owner.rpartition(":")[0]
    scene.announce(client, worker, "mail,default", silent=1)
    scene.announce(client, WORKER, "mail", silent=100)
    job = quote(f"mail:{dead}")
    return [
        "", "queue/", "queue/?state=paused", "queue/mail/change/", "queue/mail/history/", "queue/mail/pause/",
        "queue/mail/resume/", "queue/mail/drain/", "worker/", f"worker/{quote(worker)}/change/",
        f"worker/{quote(WORKER)}/change/", "job/", "job/?location=pending", "job/?location=schedule",
        "job/?location=active", f"job/{job}/change/", f"job/{job}/requeue/", f"job/{job}/delete/",
        f"job/{job}/history/",
    ]  # fmt: skip


def mount(settings: Any, *sites: admin.AdminSite) -> None:
    urls = ModuleType("urls")
    urls.urlpatterns = [path(f"{site.name}/", site.urls) for site in sites]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urls


@pytest.fixture
def site() -> admin.AdminSite:
    made = admin.AdminSite(name="ops")
    register(made)
    return made


@pytest.mark.parametrize("beside_the_default_one", [True, False])
def test_on_an_own_site_all_links_stay_within_it(
    boss: Client, client: redis.Redis, settings: Any, site: admin.AdminSite, beside_the_default_one: bool
) -> None:
    mount(settings, *([admin.site] if beside_the_default_one else []), site)
    for each in fill(client):
        answer = boss.get(f"/ops/echomq/{each}")
        assert answer.status_code == 200, each
        page = Page(answer)
        targets = page.links + [str(attrs["action"]) for tag, attrs in page.tags if attrs.get("action")]
        for link in targets:
            assert link == "/" or not link.startswith("/") or link.startswith("/ops/"), (each, link)
    if beside_the_default_one:
        assert "/admin/echomq/queue/" in Page(boss.get("/admin/echomq/")).links


def test_on_an_own_site_actions_come_back_to_it(
    boss: Client, client: redis.Redis, settings: Any, site: admin.AdminSite
) -> None:
    mount(settings, admin.site, site)
    fill(client)
    assert boss.post("/ops/echomq/queue/mail/pause/")["Location"] == "/ops/echomq/queue/mail/change/"
    asking = Page(boss.post("/ops/echomq/queue/", {"action": "drain_selected", "_selected_action": "mail"}))
    assert "/ops/echomq/queue/" in asking.links
    assert boss.post("/ops/echomq/queue/", sent(asking))["Location"].startswith("/ops/")
    assert boss.get("/ops/echomq/queue/none/change/")["Location"].startswith("/ops/")


def test_an_own_site_has_its_own_503(boss: Client, settings: Any, site: admin.AdminSite) -> None:
    site.site_header = "Operations"
    mount(settings, site)
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}}
    answer = boss.get("/ops/echomq/queue/")
    assert answer.status_code == 503
    assert "Operations" in Page(answer).text
    assert not [link for link in Page(answer).links if link.startswith("/admin/")]


def test_the_last_registration_counts_and_hooks_go_before_ours() -> None:
    class OnlyMail:
        def get_queue_names(self, request: HttpRequest) -> list[str]:
            return [name for name in super().get_queue_names(request) if name == "mail"]  # type: ignore[misc]

        text_search = False

    class Theme(admin.ModelAdmin):
        list_per_page = 7
        theme = True

    site = admin.AdminSite(name="ops")
    register(site)
    register(site, hooks=OnlyMail, base=Theme)
    for model in (Queue, Job, Worker):
        page = site.get_model_admin(model)
        assert page.get_queue_names(HttpRequest()) == ["mail"]
        assert page.theme
        assert type(page).__name__ == f"{model.__name__}Admin"
    assert not site.get_model_admin(Job).text_search
    assert admin.site.get_model_admin(Job).text_search


def test_the_default_site_has_the_pages_without_a_word_of_the_project() -> None:
    assert all(admin.site.is_registered(model) for model in (Queue, Job, Worker))


# What a strict policy forbids, and what a translator cannot reach.


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: str(each.relative_to(HERE)))
def test_a_template_has_nothing_inline(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"""\sstyle\s*=|\son[a-z]+\s*=|<style|javascript:""", text, re.IGNORECASE)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    for link in re.findall(r"<(?:link|script)[^>]*>(?!</)|<script[^>]*>", text):
        assert "csp_nonce" in text[text.index(link) :][:300], link


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: str(each.relative_to(HERE)))
def test_each_word_of_a_template_can_be_translated(template: Path) -> None:
    text = re.sub(
        r"{% block bodyclass %}.*?{% endblock %}|{%\s*blocktranslate.*?{%\s*endblocktranslate\s*%}|{%.*?%}|{{.*?}}",
        "",
        template.read_text(),
        flags=re.S,
    )
    text = re.sub(r"<!--.*?-->|<[^>]*>|&\w+;", " ", text, flags=re.S)
    assert re.findall(r"[A-Za-z]{2,}", text) == []


def texts_of_ours() -> set[str]:
    """Give the texts that the admin marks for translators."""
    patterns = (
        r'\b(?:_|gettext|ngettext)\(\s*"((?:[^"\\]|\\.)*)"',
        r'pgettext_lazy\(\s*"[^"]*",\s*"((?:[^"\\]|\\.)*)"',
        r'translate "([^"]*)"',
    )
    sources = [each.read_text() for each in (*(HERE / "admin").glob("*.py"), HERE / "models.py", *TEMPLATES)]
    return {text for source in sources for pattern in patterns for text in re.findall(pattern, source)}


def test_with_another_translation_each_word_is_another(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client)
    worker = jobs.page("mail", "active")[0].worker
    ours = texts_of_ours()
    for name in ("gettext", "ngettext"):
        real = getattr(translation._trans, name)

        def translated(*texts: Any, real: Any = real) -> str:
            found: str = real(*texts)
            crossed = re.sub(r"(%\(\w+\)s|%[sd])|[A-Za-z]", lambda each: each[1] or "x", found)
            return crossed if texts[0] in ours else found

        monkeypatch.setattr(translation._trans, name, translated)
    for each in ("", "queue/", "queue/mail/change/", "queue/mail/pause/", "queue/mail/drain/", "worker/"):
        page = boss.get(f"/admin/echomq/{each}")
        assert page.status_code == 200
        content = Page(page).html.partition('<div id="content"')[2].partition(">")[2]
        shown = re.sub(r"<(script|style).*?</\1>|<[^>]*>|&\w+;", " ", content, flags=re.DOTALL)
        words = set(re.findall(r"[A-Za-z]{4,}", shown.replace(worker, " ")))
        assert words <= KNOWN | {word for word in words if set(word.lower()) <= {"x"}}, each


KNOWN = {
    "mail", "default", "EchoMQ", "administration", "Model", "name", "link", "Change", "list", "View", "view", "History",
    "Close", "Pagination", "option",
    "Action", "selected", "items", "Filter", "Show", "counts", "Clear", "filters", "total", "queues", "queue",
    "Queues", "Queue", "Jobs", "Workers", "workers", "worker", "Run", "Select", "this", "object", "action",
    "hour", "hours", "minute", "minutes",
}  # fmt: skip
"""Data, and words of Django's own."""


def test_the_templates_are_found_and_compile() -> None:
    for template in TEMPLATES:
        engines["django"].get_template(str(template.relative_to(HERE / "templates")))
