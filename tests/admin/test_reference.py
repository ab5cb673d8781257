"""The reference of the admin says what the code does."""

import re

from django.contrib import admin
from django.contrib.auth.models import Permission

from echomq_django import job
from echomq_django.admin import arguments, bulk, changelist, draining, exporting, filters, listing, workers
from echomq_django.admin.showing import PLACE_WORDS
from echomq_django.models import Job
from echomq_django.service import browsing
from tests.test_docs import first_cells, read, rows, section

PAGE = read("admin")
UNUSED = {"echomq_queue_delete", "echomq_worker_delete"}


def test_every_permission_is_documented_and_no_other(db):
    made = Permission.objects.filter(content_type__app_label="echomq").values_list("codename", flat=True)
    assert first_cells(section(PAGE, "Permissions")) == set(made)


def test_every_page_is_documented_and_no_other():
    documented = set(re.findall(r"`(echomq_\w+)`", section(PAGE, "Pages")))
    sites = admin.site.get_urls()
    actual = {
        pattern.name
        for resolver in sites
        if str(resolver.pattern).startswith("echomq/")
        for pattern in resolver.url_patterns
        if pattern.name
    }
    # Django's own, that nothing can be done with here, or that every admin has.
    assert documented == {name for name in actual if not name.endswith(("_add", "_history"))} - UNUSED


def test_every_filter_is_documented_and_no_other():
    assert first_cells(section(PAGE, "Filters")) == {*changelist.PARAMETERS, "q"}


def test_every_key_of_a_line_of_an_export_is_documented_and_no_other():
    facts = exporting._facts(job.Job.load("mail", "JOB00000000001", {}, None, None), None, True)
    assert first_cells(section(PAGE, "Export")) == {*facts, "cut"}


def test_the_places_are_documented_in_the_order_of_the_sidebar():
    _, *cells = rows(section(PAGE, "Places and their order"))
    assert [place.strip("`").split("`")[0] for place, *_ in cells] == [place.value for place in PLACE_WORDS]


def test_the_limits_are_those_of_the_code():
    limits, search = section(PAGE, "Limits"), section(PAGE, "Search")
    assert f"| jobs on a page | {admin.site.get_model_admin(Job).list_per_page} |" in limits
    assert f"{arguments.SHOWN_LIMIT:,} characters each" in limits
    assert f"| a list of several queues | {listing.MERGED:,} jobs |" in limits
    assert f"| a text search | {listing.WINDOW:,} jobs, {listing.BUDGET:g} s |" in limits
    assert f"| one request of *all matching*, or of a drain | {bulk.SECONDS:g} s |" in limits
    assert f"{workers.WINDOW} active ones" in limits
    assert f"| an exported file | {exporting.MOST:,} jobs, {exporting.SECONDS:g} s |" in limits
    export = section(PAGE, "Export")
    assert f"at most {exporting.MOST:,} jobs and is written for at most {exporting.SECONDS:g} s" in export
    assert f"in batches of {listing.PAYLOADS}, of {listing.CHUNK} without arguments" in export
    assert f"first {listing.WINDOW:,} jobs" in search
    assert f"{filters.TOP} most frequent among the latest {browsing.CENSUS_MAX:,} dead" in section(PAGE, "Filters")
    assert bulk.SECONDS == draining.SECONDS
