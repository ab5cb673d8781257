"""How to enqueue a task from Elixir or a shell: the page's commands, run by Bash against the server under test."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from echomq_django import ids, jobs
from echomq_django.testing import run_until_empty
from tests import tasks

PAGE = Path(__file__).parents[1] / "docs/howto/other-producers.md"
ONLY_AFTER = "% test: after the worker\n"
CLI = shutil.which("redis-cli") or shutil.which("valkey-cli")

pytestmark = pytest.mark.skipif(CLI is None or shutil.which("bash") is None, reason="there is no redis-cli, or no bash")


def text() -> str:
    """Give the page, with a task of the tests in the place of the shop's."""
    return PAGE.read_text(encoding="utf-8").replace("shop.tasks.send_receipt", tasks.echo.module_path)


def shell(page: str) -> str:
    return "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


@pytest.fixture
def bash(tmp_path, url):
    """Run a script where redis-cli is, whatever the system calls it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/redis-cli").symlink_to(CLI)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "ECHOMQ_URL": url}

    def run(script: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


def test_the_page_s_commands_enqueue_tasks_that_a_worker_runs(bash, client, tmp_path):
    first, after = text().split(ONLY_AFTER)
    (tmp_path / "enqueue_task.lua").write_text(
        re.search(r"^:caption: enqueue_task.lua\n\n(.*?)^```$", first, re.MULTILINE | re.DOTALL)[1]
    )

    *replies, last = bash(f"{shell(first)}echo $id")
    assert replies == ["3", "1", "enqueued", "5", "1"]
    assert jobs.counts("default").pending == 2
    assert client.lrange("emq:{default}:wake", 0, -1) == [b"1"]
    later = jobs.get("default", last)
    assert (later.location, later.priority, later.max_attempts) == ("schedule", 10, 2)

    assert run_until_empty("default", scheduled=True) == 3

    told = {job.id: tasks.echo.get_result(f"{job.id}.default") for job in jobs.recent("default")}
    assert [told[id].return_value for id in sorted(told)] == [
        {"args": [17], "kwargs": {}},
        {"args": [18], "kwargs": {"copy": True}},
        {"args": [19], "kwargs": {}},
    ]
    assert bash(f"id={last}\n{shell(after)}") == ["completed", '{"args":[19],"kwargs":{}}']
    assert jobs.counts("default").quarantine == 0


def test_the_ids_that_the_page_mints_are_of_now_and_differ(bash):
    one, other = bash(f"{shell(text()).partition('id=$(mint)')[0]}mint; mint")

    assert one != other
    assert ids.check_job(one)
    assert abs(ids.parse(one).milliseconds - ids.parse(ids.mint()).milliseconds) < 5_000
    assert re.fullmatch("JOB0[0-9A-Za-z]{10}", one)


def test_the_page_s_script_refuses_an_id_that_is_there(bash, tmp_path):
    script = re.search(r"^:caption: enqueue_task.lua\n\n(.*?)^```$", text(), re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "enqueue_task.lua").write_text(script)
    call = re.search(r"^redis-cli .*EVALSHA.*\n.*\n", text(), re.MULTILINE)[0]
    load = 'sha=$(redis-cli -u "$ECHOMQ_URL" SCRIPT LOAD "$(cat enqueue_task.lua)")\n'

    assert bash(f"{load}id={ids.mint()}\n{call}{call}") == ["enqueued", "duplicate"]
    assert jobs.counts("default").pending == 1
