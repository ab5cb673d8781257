"""Live refresh in a real browser whose clock is moved: when it reloads, and when it waits."""

from typing import Any

import pytest
import redis
from django.contrib.auth.models import Permission, User

from echomq_django import jobs
from tests.admin import filling, scene
from tests.admin.chromium import Page, Visit, expect

pytestmark = pytest.mark.slow

LISTS = ("/admin/echomq/", "/admin/echomq/queue/", "/admin/echomq/worker/", "/admin/echomq/job/?location=dead")
JOBS = LISTS[-1]
CHOICE = ".emq-refresh select"
# The browser tells of each reload before it begins, and can be kept from it.
COUNTED = "() => { window.asked = 0; navigation.onnavigate = event => { event.preventDefault(); window.asked++ } }"


@pytest.fixture
def viewer(live_server: Any) -> User:
    user = User.objects.create_user("vera", is_staff=True)
    seen = ("view_queue", "view_job", "view_worker")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="echomq", codename__in=seen))
    return user


def open_at(page: Page, url: str, every: str) -> None:
    """Open a list whose clock stands still, and choose."""
    page.clock.install()
    page.goto(url)
    page.locator(CHOICE).select_option(every)


def reloads(page: Page, seconds: int) -> int:
    """Let time go by, and count how often the page would have been loaded anew."""
    page.evaluate(COUNTED)
    page.clock.run_for(seconds * 1000)
    found: int = page.evaluate("window.asked")
    return found


@pytest.mark.parametrize("path", LISTS)
def test_each_list_is_loaded_anew_when_that_is_chosen_and_not_before(
    visit: Visit, viewer: User, client: redis.Redis, path: str
) -> None:
    scene.bury(client, 3)

    def walk(page: Page) -> list[int]:
        page.clock.install()
        page.goto(path)
        found = [reloads(page, 600)]
        for every in ("5", "15", "60", "0"):
            page.locator(CHOICE).select_option(every)
            found.append(reloads(page, 60))
        assert page.locator("[aria-live]:not(.action-counter)").count() == 0  # Django's own counts what is ticked
        return found

    assert visit(walk, viewer) == [0, 12, 4, 1, 0]


def test_what_came_meanwhile_is_shown_with_the_filter_the_scroll_and_the_choice_kept(
    visit: Visit, viewer: User, client: redis.Redis
) -> None:
    scene.bury(client, 30)

    def walk(page: Page) -> None:
        url = f"{JOBS}&queue=mail"
        open_at(page, url, "15")
        page.locator(CHOICE).focus()
        page.evaluate("window.scrollTo(0, 300)")
        page.evaluate("window.old = true")
        scene.bury(client, 1)
        with page.expect_event("load"):
            page.clock.run_for(15_000)
        expect(page.locator("#result_list tbody tr")).to_have_count(31)
        assert page.evaluate("[window.old, location.pathname + location.search, document.activeElement.tagName]") == [
            None, url, "SELECT"
        ]  # fmt: skip
        page.wait_for_function("window.scrollY === 300")
        expect(page.locator(CHOICE)).to_have_value("15")
        assert reloads(page, 15) == 1
        # Each page has its own choice.
        page.goto("/admin/echomq/queue/")
        expect(page.locator(CHOICE)).to_have_value("0")
        page.goto("/admin/echomq/job/?location=pending")
        expect(page.locator(CHOICE)).to_have_value("15")

    visit(walk, viewer, viewport={"width": 900, "height": 400})


def test_it_waits_while_somebody_works_on_the_page_or_looks_elsewhere(
    visit: Visit, viewer: User, client: redis.Redis
) -> None:
    scene.bury(client, 3)
    hide = "hidden => Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true})"
    select = "getSelection().selectAllChildren(document.querySelector('#result_list'))"
    ways = [
        (lambda page: page.evaluate(hide, True), lambda page: page.evaluate(hide, False)),
        (lambda page: page.locator("#searchbar").focus(), lambda page: page.locator("#searchbar").blur()),
        (lambda page: page.locator("#result_list a").first.focus(), lambda page: page.locator(CHOICE).focus()),
        (lambda page: page.evaluate(select), lambda page: page.evaluate("getSelection().empty()")),
        (lambda page: tick(page, True), lambda page: tick(page, False)),
    ]

    def tick(page: Page, on: bool) -> None:
        box = page.locator("input[name=_selected_action]").first
        box.set_checked(on)
        box.blur()

    def walk(page: Page) -> list[list[int]]:
        open_at(page, JOBS, "5")
        found = []
        for begin, end in ways:
            begin(page)
            waiting = reloads(page, 60)
            end(page)
            found.append([waiting, reloads(page, 5)])
        return found

    assert visit(walk, viewer) == [[0, 1]] * len(ways)


def test_a_message_is_left_long_enough_to_be_read(visit: Visit, viewer: User) -> None:
    viewer.user_permissions.add(Permission.objects.get(codename="requeue_job"))
    filling.dead()
    filling.dead()

    def walk(page: Page) -> list[int]:
        open_at(page, JOBS, "5")
        page.locator("input[name=_selected_action]").first.check()
        page.locator("select[name=action]").select_option("requeue_selected")
        page.locator("button[name=index]").click()
        page.locator(".emq-confirm #content form input[type=submit]").click()
        expect(page.locator(".messagelist .success")).to_be_visible()
        return [reloads(page, 59), reloads(page, 1)]

    assert visit(walk, viewer) == [0, 1]


def test_without_scripts_there_is_no_choice_and_the_list_is_whole(visit: Visit, viewer: User) -> None:
    filling.dead()

    def walk(page: Page) -> None:
        for url in LISTS:
            page.goto(url)
            expect(page.locator("h1").first).to_be_visible()
            assert page.locator(CHOICE).count() == 0
        expect(page.locator("#result_list tbody tr")).to_have_count(1)

    visit(walk, viewer, java_script_enabled=False)


def test_when_the_server_is_away_the_page_says_so_and_is_loaded_no_more(
    visit: Visit, viewer: User, settings: Any
) -> None:
    filling.dead()
    there = settings.ECHOMQ
    away = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}}

    def walk(page: Page) -> None:
        open_at(page, JOBS, "5")
        settings.ECHOMQ = away
        with page.expect_event("load"):
            page.clock.run_for(5000)
        expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        assert reloads(page, 600) == 0
        settings.ECHOMQ = there

    with pytest.raises(AssertionError, match="503"):  # the browser complains of it, and of nothing else
        visit(walk, viewer)
    assert jobs.counts("default").dead == 1
