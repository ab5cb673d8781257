"""Law 5: every page and an action under each theme, on each kind of site, on each Django that runs the tests.

Warnings are errors, so that what a later Django will take away is known today; but a theme's own are its own.
"""

from pathlib import Path

import pytest
import redis

from echomq_django import jobs
from tests.admin.test_models import run
from tests.admin.test_registration import fill

SITE = """
    import warnings
    {ignored}
    import django
    from django.conf import settings
    from tests import settings as tested
    settings.configure(
        INSTALLED_APPS=[
            {apps}, "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
            "django.contrib.messages", "django.contrib.staticfiles", "echomq_django",
        ],
        MIDDLEWARE=tested.MIDDLEWARE, TEMPLATES=tested.TEMPLATES,
        DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
        SECRET_KEY="x", USE_TZ=True, STATIC_URL="static/", ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", ECHOMQ={{"default": {{"LOCATION": {url!r}}}}},
    )
    django.setup()
    from django.core.management import call_command
    from django.test import Client
    call_command("check")
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss"))
    for page in {pages}:
        answer = browser.get("/here/echomq/" + page)
        assert answer.status_code == 200, (page, answer.status_code, answer.get("Location"))
        assert b'"/admin/' not in answer.content, page
        assert (b"unfold" in answer.content) is {dressed}, page
        is_list = page in ("", "queue/", "worker/") or page.startswith("job/?")
        assert not is_list or b"echomq/refresh.js" in answer.content, page
    chosen = {{"action": "requeue_selected", "index": "0", "select_across": "1", "_selected_action": "any"}}
    asking = browser.post("/here/echomq/job/", chosen)
    assert b"Requeue 1 dead job?" in asking.content
    chosen |= {{"cutoff": "9" * 13}}
    for path, data in (("queue/mail/pause/", {{}}), ("job/", chosen)):
        assert browser.post("/here/echomq/" + path, data)["Location"].startswith("/here/echomq/"), path
    chosen = {{"action": "export_selected", "index": "0", "select_across": "1", "_selected_action": "any"}}
    print(len(list(browser.post("/here/echomq/job/?location=pending", chosen).streaming_content)), "file")
"""


APPS = {
    "stock": '"django.contrib.admin"',
    "unfold": '"unfold", "django.contrib.admin"',
    "replaced": '"own.OwnConfig"',
}
THE_DEFAULT_SITE = """
from django.contrib import admin
from django.urls import path

urlpatterns = [path("here/", admin.site.urls)]
"""
A_SITE_OF_ITS_OWN = """
from {module} import {name}
from django.urls import path
from echomq_django.admin import register

site = {name}(name="ops")
register(site)
urlpatterns = [path("here/", site.urls)]
"""
A_SITE_IN_THE_DEFAULT_ONES_STEAD = """
from django.contrib import admin
from django.contrib.admin.apps import AdminConfig

class Site(admin.AdminSite):
    site_header = "Own"

class OwnConfig(AdminConfig):
    default = False
    default_site = "own.Site"
"""
URLS = {
    ("stock", "default"): THE_DEFAULT_SITE,
    ("unfold", "default"): THE_DEFAULT_SITE,
    ("replaced", "default"): THE_DEFAULT_SITE,
    ("stock", "own"): A_SITE_OF_ITS_OWN.format(module="django.contrib.admin", name="AdminSite"),
    ("unfold", "own"): A_SITE_OF_ITS_OWN.format(module="unfold.sites", name="UnfoldAdminSite"),
}


@pytest.mark.slow
@pytest.mark.everywhere
@pytest.mark.parametrize(("theme", "site"), URLS)
def test_every_page_and_an_action_work(client: redis.Redis, url: str, tmp_path: Path, theme: str, site: str) -> None:
    pages = fill(client)
    (tmp_path / "urls.py").write_text(URLS[theme, site])
    (tmp_path / "own.py").write_text(A_SITE_IN_THE_DEFAULT_ONES_STEAD)
    is_unfold = theme == "unfold"
    ignored = 'warnings.filterwarnings("ignore", module="unfold")' if is_unfold else ""
    text = run(SITE.format(apps=APPS[theme], url=url, pages=pages, dressed=is_unfold, ignored=ignored), tmp_path)
    assert text.endswith("1 file\n")
    counts = jobs.counts("mail")
    assert (counts.paused, counts.dead, counts.pending) == (True, 0, 2)
