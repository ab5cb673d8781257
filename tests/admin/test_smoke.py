"""draft"""

import pytest
from django.contrib.auth.models import User
from echomq_django import jobs, keys
from tests import tasks


@pytest.fixture
def boss(db, client):
    from django.test import Client

    User.objects.create_superuser("boss", "a@b.c", "pw")
    c = Client()
    c.login(username="boss", password="pw")
    return c


def fill():
    for n in range(5):
        tasks.fail.enqueue(f"<b>{n}</b>")
        [claim] = jobs.claim("default")
        jobs.retry(claim, ValueError("<script>x</script>"), max_attempts=1)
    tasks.add.enqueue(1, 2)
    tasks.add.enqueue(3, 4)
    jobs.claim("default")
    from datetime import timedelta

    tasks.add.using(run_after=timedelta(hours=1)).enqueue(5, 6)


@pytest.mark.django_db
def test_pages(boss, client):
    fill()
    for url in [
        "/admin/",
        "/admin/echomq/",
        "/admin/echomq/job/",
        "/admin/echomq/job/?location=pending",
        "/admin/echomq/job/?location=active",
        "/admin/echomq/job/?location=schedule",
        "/admin/echomq/queue/",
        "/admin/echomq/worker/",
        "/admin/echomq/job/?q=ValueError",
        "/admin/echomq/job/?task=tests.tasks.fail",
    ]:
        r = boss.get(url)
        print(url, r.status_code, r.get("Location"))
        assert r.status_code == 200, url
        assert b"<script>x" not in r.content
    job = jobs.page("default", "dead")[0]
    r = boss.get(f"/admin/echomq/job/default:{job.id}/change/")
    print(r.status_code)
    open("/work/scratch/job.html", "wb").write(r.content)
    assert r.status_code == 200
    assert b"<script>x" not in r.content
    r = boss.get(f"/admin/echomq/job/default:{job.id}/requeue/")
    assert r.status_code == 200
    r = boss.post(f"/admin/echomq/job/default:{job.id}/requeue/")
    assert r.status_code == 302
    r = boss.get(f"/admin/echomq/job/default:{job.id}/payload/")
    assert r.status_code == 200
    r = boss.get(f"/admin/echomq/job/default:{job.id}/delete/")
    assert r.status_code == 200
    r = boss.get(f"/admin/echomq/job/default:{job.id}/history/")
    assert r.status_code == 200
    r = boss.post(
        "/admin/echomq/job/?location=dead",
        {"action": "requeue_selected", "index": "0", "select_across": "1", "_selected_action": ["x"]},
    )
    assert r.status_code == 200
    r = boss.post(
        "/admin/echomq/job/?location=dead",
        {
            "action": "requeue_selected",
            "select_across": "1",
            "_selected_action": ["all"],
            "cutoff": str(jobs.now_ms()),
            "done": "0",
        },
    )
    print(r.status_code, jobs.counts("default"))
