"""The pages for those who do not see them, or use no mouse: no fault that Django's own pages do not have too."""

from functools import partial
from typing import Any

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User

from echomq_django import jobs, keys
from tests.admin import filling, scene
from tests.admin.chromium import Page, Visit

pytestmark = pytest.mark.slow

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
JOB = "/admin/echomq/job/"
STOCK = (
    "/admin/",
    "/admin/auth/user/",
    "/admin/auth/user/{}/change/",
    "/admin/auth/user/{}/delete/",
    "/admin/auth/user/{}/history/",
)
"""What Django's own pages are like."""


@pytest.fixture
def boss(live_server: Any) -> User:
    return User.objects.create_superuser("boss")


def faults(page: Page, url: str) -> dict[str, str]:
    """Give the rules that a page breaks, each with the elements that do."""
    page.goto(url)
    found = Axe().run(page, options=RULES).response["violations"]
    return {each["id"]: "\n".join(node["html"] for node in each["nodes"]) for each in found}


def fill(client: redis.Redis) -> list[str]:
    """Put something on every page of ours; the pages."""
    dead = scene.bury(client, 60)[-1]
    running = scene.work(client)
    scheduled, completed, hollow = filling.scheduled(), filling.completed(), filling.dead()
    [pending, *_] = jobs.page("mail", "pending")
    client.delete(keys.of(filling.QUEUE).row(hollow))
    of_one = {
        f"mail:{dead}": ("change", "requeue", "delete", "history"),
        f"mail:{pending.id}": ("change",),
        f"default:{scheduled}": ("change", "advance"),
        f"default:{running}": ("change",),
        f"default:{completed}": ("change",),
        f"default:{hollow}": ("change", "delete"),
    }
    return [
        "/admin/echomq/",
        *(f"{JOB}?location={place}" for place in ("pending", "active", "schedule", "dead")),
        f"{JOB}?location=dead&queue=mail&task={scene.INVOICE}&q=address",
        *(f"{JOB}{key}/{page}/" for key, pages in of_one.items() for page in pages),
        "/admin/echomq/queue/",
        *(f"/admin/echomq/queue/mail/{page}/" for page in ("change", "pause", "drain", "history")),
        "/admin/echomq/worker/",
        "/admin/echomq/worker/web-1_3A4711_3Aa1b2c3d4/change/",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_fault_that_djangos_own_pages_do_not_have(
    visit: Visit, boss: User, client: redis.Redis, scheme: str
) -> None:
    stock = [url.format(boss.pk) for url in STOCK]
    ours = fill(client)

    def walk(page: Page) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        known: dict[str, str] = {}
        for url in stock:
            known |= faults(page, url)
        return known, {url: faults(page, url) for url in ours}

    # axe fetches and writes styles of its own.
    known, found = visit(walk, boss, color_scheme=scheme, bypass_csp=True)
    # Colours and elements of our own are no better for Django's being worse.
    worse = {
        url: {rule: where for rule, where in each.items() if rule not in known or "emq-" in where}
        for url, each in found.items()
    }
    assert {url: each for url, each in worse.items() if each} == {}


def test_a_fault_would_be_found(visit: Visit, boss: User) -> None:
    def walk(page: Page) -> dict[str, str]:
        page.goto("/admin/")
        page.evaluate("document.querySelector('#content').append(document.createElement('img'))")
        return {each["id"]: "" for each in Axe().run(page, options=RULES).response["violations"]}

    assert "image-alt" in visit(walk, boss, bypass_csp=True)


def tabbed(page: Page, url: str) -> list[str]:
    """Walk through a page with the Tab key; what has the focus, as the way to it, until it is the first again."""
    page.goto(url)
    seen: list[str] = []
    for _ in range(300):
        page.keyboard.press("Tab")
        name: str = page.evaluate(
            "[document.activeElement].map(e => e.tagName + ' ' + (e.getAttribute('href') || e.name || e.className))[0]"
        )
        if name.startswith("BODY"):
            break
        seen.append(name)
    return seen


def test_each_action_of_a_job_and_of_the_list_is_reached_with_the_tab_key(
    visit: Visit, boss: User, client: redis.Redis
) -> None:
    dead = scene.bury(client, 3)[-1]
    key = f"mail_3A{dead}"
    wanted = {
        f"{JOB}mail:{dead}/change/": [
            *(f"A {JOB}{key}/{page}/" for page in ("requeue", "payload", "history", "delete")),
            "TEXTAREA arguments", "INPUT _save", "PRE emq-text", "SUMMARY ",
        ],
        f"{JOB}mail:{dead}/requeue/": ["INPUT ", f"A {JOB}{key}/change/"],
        f"{JOB}?location=dead": [
            "SELECT action", "BUTTON index", "INPUT _selected_action", "INPUT q", f"A {JOB}{key}/change/?",
            "A ?location=pending",
        ],
    }  # fmt: skip
    missed = {}
    for url, names in wanted.items():
        seen = visit(partial(tabbed, url=url), boss)
        missed[url] = [name for name in names if not any(each.startswith(name) for each in seen)]
    assert missed == {url: [] for url in wanted}


def test_what_scrolls_has_the_focus_and_what_is_drawn_is_told(visit: Visit, boss: User, client: redis.Redis) -> None:
    urls = fill(client)

    def walk(page: Page) -> list[str]:
        silent = []
        for url in urls:
            page.goto(url)
            silent += [f"{url}: pre" for _ in page.locator("pre:not([tabindex='0'])").all()]
            for drawn in page.locator("#content-main svg, #content svg").all():
                told = page.locator(f"#{drawn.get_attribute('aria-labelledby')}")
                if drawn.get_attribute("role") != "img" or not told.inner_text().strip():
                    silent.append(f"{url}: svg")
        return silent

    assert visit(walk, boss) == []
