"""From login to a merged solution that anyone can clone, by clicking."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from portal.evaluations.models import Evaluation
from tests.portal.pages.showcase import PASSWORD


def test_an_engineer_logs_in_reviews_merges_and_the_solution_can_be_cloned(
    open_page, published, live_server, tmp_path: Path
) -> None:
    best = Evaluation.objects.filter(attempt__kind="agent", verdict="passed").order_by("-sol_score").first()
    page = open_page(best.attempt.get_absolute_url())
    page.get_by_role("link", name="Log in", exact=True).first.click()
    page.get_by_label("Username").fill("rosa")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    page.wait_for_url(re.compile(best.attempt.commit))

    merge = page.get_by_role("button", name="Merge into solutions")
    assert merge.is_disabled()
    assert "not approved" in page.locator("#obstacles").text_content()
    page.get_by_label("Comment").fill("Reads well; the tail is handled.")
    page.get_by_role("button", name="Approve").click()
    # A click returns before the page is there that it leads to.
    page.locator(".messages").get_by_text("Approved.").wait_for()
    page.locator(".reviews").get_by_text("Reads well; the tail is handled.").wait_for()

    merge = page.get_by_role("button", name="Merge into solutions")
    assert merge.is_enabled()
    merge.click()
    page.locator(".messages").get_by_text("Merged as").wait_for()

    page.get_by_role("link", name="Solutions", exact=True).click()
    page.wait_for_url("**/solutions/")
    assert page.locator("#table-solutions tbody tr").count() == 1
    directory = f"solutions/{best.attempt.problem.name}/cpp-cpu"

    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "--quiet", f"{live_server.url}/git/solutions.git", str(clone)], check=True, timeout=60,
        capture_output=True,
    )
    assert json.loads((clone / directory / "solution.json").read_text())["commit"] == best.attempt.commit

    page.get_by_role("button", name="Log out").click()
    page.get_by_role("link", name="Log in", exact=True).wait_for()


def test_a_wrong_password_is_said_and_changes_nothing(open_page, shown) -> None:
    page = open_page("/login/")
    page.get_by_label("Username").fill("rosa")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("button", name="Log out").count() == 0
