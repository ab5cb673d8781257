"""The admin in a real browser: every page of it is silent, and people get done what they come for."""

from functools import partial
from typing import Any

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User

from echomq_django import envelope, jobs, keys
from tests.admin import filling, scene
from tests.admin.chromium import SCREENSHOTS, Page, Visit, expect

pytestmark = pytest.mark.slow

OPERATOR = (
    "view_queue", "view_job", "view_worker", "view_job_payload", "requeue_job", "advance_job", "delete_job",
    "change_job", "pause_queue", "drain_queue",
)  # fmt: skip


@pytest.fixture
def operator(live_server: Any) -> User:
    """Give somebody who is no superuser and may do everything here."""
    user = User.objects.create_user("olga", password="pw", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="echomq", codename__in=OPERATOR))
    return user


def act(page: Page, action: str, *, all_matching: bool = False) -> None:
    """Choose an action for what is ticked, and go."""
    if all_matching:
        page.locator("#action-toggle").check()
        page.locator(".actions .question a").click()
    page.locator("select[name=action]").select_option(action)
    page.locator("button[name=index]").click()


def confirm(page: Page) -> None:
    # Of the page that asks: the list has a submit button as well, and may still be there.
    page.locator(".emq-confirm #content form input[type=submit]").click()


def job_url(queue: str, job_id: str, page: str = "change") -> str:
    return f"/admin/echomq/job/{queue}:{job_id}/{page}/"


def test_every_page_is_silent_on_a_site_that_allows_nothing_inline(
    visit: Visit, operator: User, client: redis.Redis
) -> None:
    scene.bury(client, 60)
    running = scene.work(client)
    [dead, *_], [pending, *_], [scheduled, *_] = (jobs.page("mail", place) for place in ("dead", "pending", "schedule"))
    urls = [
        "/admin/",
        "/admin/echomq/",
        "/admin/echomq/queue/",
        "/admin/echomq/worker/",
        "/admin/echomq/job/",
        *(f"/admin/echomq/job/?location={place}" for place in ("pending", "active", "schedule", "dead")),
        f"/admin/echomq/job/?location=dead&queue=mail&task={scene.INVOICE}&q=address",
        job_url("mail", pending.id),
        job_url("mail", scheduled.id),
        job_url("default", running),
        *(job_url("mail", dead.id, page) for page in ("change", "requeue", "delete", "history")),
        job_url("mail", scheduled.id, "advance"),
    ]

    def walk(page: Page) -> None:
        page.goto("/admin/")
        page.get_by_label("Username").fill("olga")
        page.get_by_label("Password").fill("pw")
        page.get_by_role("button", name="Log in").click()
        for url in urls:
            page.goto(url)
            assert page.locator("h1").first.is_visible(), url
        page.goto("/admin/echomq/job/?location=dead&queue=mail")
        act(page, "requeue_selected", all_matching=True)
        expect(page.locator("#content")).to_contain_text("60")
        page.goto("/admin/echomq/queue/")
        page.locator("input[name=_selected_action]").first.check()
        act(page, "drain_selected")
        expect(page.locator(".emq-confirm #content form input[type=submit]")).to_be_visible()

    visit(walk)


def test_what_a_producer_wrote_is_text_on_every_page(visit: Visit, operator: User) -> None:
    text = " ".join(filling.HOSTILE)
    job_id = filling.dead(envelope.encode("a.b", [text], {text: text}), RuntimeError(text), name=text)
    jobs.enqueue("default", text, name=text)

    def walk(page: Page) -> None:
        for url in (
            "/admin/echomq/job/?location=dead",
            "/admin/echomq/job/?location=pending",
            "/admin/echomq/job/?q=%3Cscript%3Ealert(1)%3C/script%3E",
            *(job_url("default", job_id, name) for name in ("change", "requeue", "delete", "history")),
        ):
            page.goto(url)
            assert "Django site admin" in page.title(), url
            for made in ("script:not([src])", "img[src=x]", "[onmouseover]", "[onerror]", "#content b"):
                assert page.locator(made).count() == 0, (url, made)

    visit(walk, operator)


def test_a_dead_job_is_found_opened_and_requeued(visit: Visit, operator: User, client: redis.Redis) -> None:
    dead = scene.bury(client, 8)

    def walk(page: Page) -> None:
        page.goto("/admin/echomq/job/?location=dead")
        page.locator("#changelist-filter").get_by_role("link", name="AddressUnknown").click()
        expect(page.locator("#result_list tbody tr")).to_have_count(2)
        page.goto("/admin/echomq/job/")
        page.get_by_role("searchbox").or_(page.locator("#searchbar")).first.fill("order 1004")
        page.locator("#changelist-search [type=submit]").click()
        page.locator("#result_list").get_by_role("link", name=dead[4]).click()
        expect(page.locator("#content")).to_contain_text("AddressUnknown")
        page.locator("#content").get_by_role("link", name="Requeue").click()
        confirm(page)
        expect(page.locator(".messagelist .success")).to_contain_text(dead[4])

    visit(walk, operator)
    assert jobs.location("mail", dead[4]) == "pending"
    assert jobs.counts("mail").dead == 7
    assert LogEntry.objects.get().object_id == f"mail:{dead[4]}"


def test_all_that_match_are_requeued_and_no_other(visit: Visit, operator: User, client: redis.Redis) -> None:
    scene.bury(client, 76)

    def walk(page: Page) -> None:
        page.goto(f"/admin/echomq/job/?location=dead&queue=mail&task={scene.RECEIPT}")
        act(page, "requeue_selected", all_matching=True)
        expect(page.locator("#content")).to_contain_text("57")
        confirm(page)
        expect(page.locator(".messagelist .success")).to_contain_text("57")

    visit(walk, operator)
    counts = jobs.counts("mail")
    assert (counts.pending, counts.dead) == (57, 19)


def test_the_arguments_of_a_dead_job_are_edited_and_it_is_requeued(visit: Visit, operator: User) -> None:
    job_id = scene.die("mail", scene.INVOICE, scene.AddressUnknown("no address"), 1001)

    def walk(page: Page) -> None:
        page.goto(job_url("mail", job_id))
        arguments = page.locator("textarea[name=arguments]")
        arguments.fill('{"args": [1002')
        page.locator("[name=_save]").click()
        expect(page.locator(".errorlist").first).to_be_visible()
        arguments.fill('{"args": [1002], "kwargs": {"copy": true}}')
        page.locator("[name=_save]").click()
        expect(page.locator(".messagelist .success")).to_be_visible()

    visit(walk, operator)
    job = jobs.get("mail", job_id)
    assert job.location == "pending"
    sent = envelope.decode(job.payload)
    assert (sent.task, sent.args, sent.kwargs) == (scene.INVOICE, [1002], {"copy": True})


def test_a_queue_is_paused_resumed_and_drained(visit: Visit, operator: User) -> None:
    for order in range(3):
        scene.enqueue("mail", scene.RECEIPT, order)
    paused = []

    def walk(page: Page) -> None:
        page.goto("/admin/echomq/queue/")
        for action in ("pause_selected", "resume_selected", "drain_selected"):
            page.get_by_role("row", name="mail").get_by_role("checkbox").check()
            act(page, action)
            if action == "drain_selected":
                expect(page.locator("#content")).to_contain_text("3")
                confirm(page)
            expect(page.locator(".messagelist li:not(.error)")).to_be_visible()
            paused.append(jobs.counts("mail").paused)

    visit(walk, operator)
    assert paused == [True, False, False]
    assert jobs.counts("mail").pending == 0


def test_a_scheduled_job_is_run_now_and_a_pending_one_removed(visit: Visit, operator: User) -> None:
    scheduled = scene.enqueue("mail", scene.RECEIPT, 1, delay=3600)

    def walk(page: Page) -> None:
        page.goto(job_url("mail", scheduled))
        page.locator("#content").get_by_role("link", name="Run now").click()
        confirm(page)
        expect(page.locator(".messagelist .success")).to_be_visible()
        assert jobs.location("mail", scheduled) == "pending"
        page.goto(job_url("mail", scheduled))
        page.locator("#content").get_by_role("link", name="Remove").or_(page.locator(".deletelink")).first.click()
        confirm(page)
        expect(page.locator(".messagelist .success")).to_be_visible()

    visit(walk, operator)
    assert jobs.location("mail", scheduled) is None


def test_everything_is_reached_with_the_keyboard_alone(visit: Visit, operator: User, client: redis.Redis) -> None:
    [dead] = scene.bury(client, 1)

    def tab_to(page: Page, selector: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.locator(":focus").and_(page.locator(selector)).count():
                return
        raise AssertionError(f"the Tab key does not lead to {selector}")

    def walk(page: Page) -> None:
        page.goto("/admin/echomq/job/?location=dead")
        tab_to(page, "input[name=_selected_action]")
        page.keyboard.press("Space")
        page.goto("/admin/echomq/job/?location=dead")
        tab_to(page, "#result_list th a, #result_list td a")
        page.keyboard.press("Enter")
        page.wait_for_url("**/change/**")
        tab_to(page, "pre")
        page.go_back()
        page.goto(job_url("mail", dead))
        tab_to(page, "a[href$='/requeue/']")
        page.keyboard.press("Enter")
        page.wait_for_url("**/requeue/")
        tab_to(page, ".emq-confirm #content form input[type=submit]")
        page.keyboard.press("Enter")
        expect(page.locator(".messagelist .success")).to_be_visible()

    visit(walk, operator)
    assert jobs.location("mail", dead) == "pending"


LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1440, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1440, "height": 800}, "color_scheme": "dark"},
    "mobile": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True},
}


def test_no_page_is_wider_than_its_window_and_screenshots_are_left_to_be_looked_at(
    visit: Visit, operator: User, client: redis.Redis
) -> None:
    dead = scene.bury(client, 60)
    running = scene.work(client)
    word = "x" * 300
    long = filling.dead(error=ValueError(word), name=word)
    hollow = scene.enqueue("mail", scene.RECEIPT, 1, delay=60)
    client.delete(keys.of("mail").row(hollow))
    filled = filling.completed()
    jobs.pause("default")
    urls = {
        "overview": "/admin/echomq/",
        "dead": "/admin/echomq/job/?location=dead&queue=mail",
        "dead-long": "/admin/echomq/job/?location=dead",
        "job": job_url("mail", dead[-1]),
        "confirm": job_url("mail", dead[-1], "requeue"),
        "remove": job_url("mail", dead[-1], "delete"),
        "pending": job_url("mail", jobs.page("mail", "pending")[0].id),
        "scheduled": job_url("mail", jobs.page("mail", "schedule")[-1].id),
        "running": job_url("default", running),
        "completed": job_url("default", filled),
        "hollow": job_url("mail", hollow),
        "long": job_url("default", long),
        "remove-long": job_url("default", long, "delete"),
    }
    narrow = {
        "queues": "/admin/echomq/queue/",
        "queue": "/admin/echomq/queue/mail/change/",
        "workers": "/admin/echomq/worker/",
    }
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def walk(page: Page, look: str) -> list[str]:
        too_wide = []
        for name, url in (urls | (narrow if look == "mobile" else {})).items():
            page.goto(url)
            page.screenshot(path=SCREENSHOTS / f"{name}-{look}.png", full_page="/job/" in url and "change" in url)
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                too_wide.append(f"{name}-{look}")
        return too_wide

    assert [visit(partial(walk, look=look), operator, **options) for look, options in LOOKS.items()] == [[], [], []]
