"""What goes wrong, with a real judge below the worker: the row gets its verdict, and the next is unharmed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agentcore.gitstore import SolutionsRepository
from agentcore.judge.result import EvaluationResult
from portal.attempts import intake
from portal.evaluations.models import Evaluation
from portal.evaluations.worker import Judge, Worker, start_judge
from portal.solutions import publishing
from portal.solutions.publishing import PublishingError
from tests.judge.conftest import candidates_of, wait_until
from tests.portal import factories as make
from tests.portal import repositories as repos
from tests.portal.evaluations.clusters import KERNEL, NEEDS_A_JUDGE

pytestmark = [pytest.mark.django_db, *NEEDS_A_JUDGE]


def calling(statement: str) -> str:
    """The honest kernel, but for its sixth call."""
    loop = "for (int64_t i = 0"
    included = "".join(f"#include <{name}>\n" for name in ("cstdlib", "csignal", "unistd.h"))
    inserted = f"static int calls = 0;\n    if (calls++ == 5) {{ {statement} }}\n    {loop}"
    return included + KERNEL.replace(loop, inserted, 1)


FAILING = {
    "crash": ("abort();", "runtime_error"),
    "error": ("return 7;", "runtime_error"),
    "leave": ("_exit(0);", "reward_hack"),
    "hang": ("for (int s = 1; s < 32; ++s) signal(s, SIG_IGN); if (fork() >= 0) for (;;) pause();", "timeout"),
    "wrong": ("y[0] += 1; y[batch * KY_HIDDEN - 1] = 3e38f; return 0;", "incorrect"),
}


class Hurried:
    """A worker's judge whose kernels have two seconds for a call, not ten: what hangs is waited for in full."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    @property
    def pid(self) -> int:
        return self.judge.pid or 0  # type: ignore[attr-defined]

    def evaluate(self, *asked: Any, options: Mapping[str, Any] | None = None, **more: Any) -> EvaluationResult:
        limits = {"call_timeout_s": 2.0, "first_call_timeout_s": 60.0}
        return self.judge.evaluate(*asked, options={**limits, **(options or {})}, **more)

    def close(self) -> None:
        self.judge.close()


@pytest.fixture
def machine(tmp_path: Path, settings, lay_cpu_rates: Callable[[Path], Path]) -> Iterator[Worker]:
    """A worker with a judge of its own; the leases of its rows outlast every test, so that no thread renews them."""
    settings.EVALUATION_LEASE_S = 3600
    settings.EVALUATION_RETRY_PAUSE_S = 0
    lay_cpu_rates(Path(settings.CACHE_DIR))
    repos.start(tmp_path)
    make.make_agent("ada")
    worker = Worker("cpu", lambda hardware: Hurried(start_judge(hardware)))
    yield worker
    worker.close()


def pushed(**sources: str) -> None:
    for slug, source in sources.items():
        repos.push("scale", "ada", source, slug=slug)
    intake.reconcile()


def judged(machine: Worker) -> dict[str, Evaluation]:
    """Run until nothing waits (a busy machine has rows waiting again); the rows by their attempts' slugs."""
    for _ in range(4):
        machine.run(budget_s=240)
        if not Evaluation.objects.filter(state="queued").exists():
            break
        Evaluation.objects.filter(state="queued").update(not_before=timezone.now() - timedelta(seconds=1))
    return {row.attempt.slug: row for row in Evaluation.objects.select_related("attempt")}


def judge_pid(machine: Worker) -> int:
    return machine._judge.pid if machine._judge is not None else 0  # type: ignore[attr-defined]


def test_every_failing_kernel_gets_its_verdict_and_the_honest_one_behind_it_passes(machine: Worker) -> None:
    pushed(**{name: calling(statement) for name, (statement, _) in FAILING.items()}, honest=KERNEL)
    rows = judged(machine)
    assert {slug: row.verdict for slug, row in rows.items()} == {
        **{name: verdict for name, (_, verdict) in FAILING.items()}, "honest": "passed",
    }, {slug: row.message for slug, row in rows.items()}
    assert all(row.result["stamp"]["memory_limit"] in ("cgroup", "watcher") for row in rows.values())
    assert not candidates_of(judge_pid(machine))


def test_a_judge_that_is_killed_has_its_row_judged_again(machine: Worker) -> None:
    pushed(first=calling("usleep(1500000);"), second=KERNEL)
    killed: list[int] = []

    def kill() -> None:
        if wait_until(lambda: judge_pid(machine) and candidates_of(judge_pid(machine)), 100):
            killed.append(judge_pid(machine))
            os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = judged(machine)
    killer.join()
    assert killed and judge_pid(machine) not in killed
    assert {row.verdict for row in rows.values()} == {"passed"}, {row.message for row in rows.values()}
    assert max(row.claims for row in rows.values()) >= 2
    assert not Path(f"/proc/{killed[0]}").exists()


def test_a_judge_that_never_answers_is_ended_and_its_row_is_not_lost(machine: Worker, settings) -> None:
    pushed(honest=KERNEL)
    assert judged(machine)["honest"].verdict == "passed"  # from here on the judge is up
    settings.EVALUATION_MAX_CLAIMS = 1
    stopped: list[int] = []
    for deadline_s in (2, 6, 15, 40):  # a busy machine gets no further by the first than to the build
        settings.EVALUATION_DEADLINE_S = deadline_s
        pushed(**{f"first{deadline_s}": calling("usleep(1500000);") + f"// {deadline_s}\n"})
        ended = threading.Event()

        def stop(ended: threading.Event = ended) -> None:
            running = wait_until(
                lambda: ended.is_set() or (judge_pid(machine) and candidates_of(judge_pid(machine))), 100
            )
            if running and not ended.is_set():
                stopped.append(judge_pid(machine))
                os.kill(stopped[0], signal.SIGSTOP)

        stopper = threading.Thread(target=stop)
        stopper.start()
        machine.run(budget_s=100)
        ended.set()
        stopper.join()
        if stopped:
            break
    row = Evaluation.objects.get(attempt__slug=f"first{deadline_s}")
    assert stopped and (row.state, row.verdict) == ("done", "infra_error")
    assert "deadline" in row.message and not Path(f"/proc/{stopped[0]}").exists()
    settings.EVALUATION_DEADLINE_S, settings.EVALUATION_MAX_CLAIMS = 200, 3
    pushed(second=KERNEL + "// not the kernel that was judged before\n")
    assert judged(machine)["second"].verdict == "passed"


def test_without_a_sandbox_a_kernel_is_judged_but_neither_believed_nor_published(machine: Worker, settings) -> None:
    settings.SANDBOX = "none"
    pushed(bare=KERNEL)
    evaluation = judged(machine)["bare"]
    assert evaluation.verdict == "passed" and evaluation.result["stamp"]["sandbox"] == "none"
    eve = make.make_user("eve", staff=True)
    publishing.review(evaluation.attempt, eve, "approved", evaluation=evaluation)
    with pytest.raises(PublishingError, match="ran without a sandbox"):
        publishing.merge(evaluation.attempt, evaluation, eve)
    client = Client()
    client.force_login(eve)
    address = evaluation.attempt.get_absolute_url()
    page = client.get(address).content.decode()
    assert "ran without a sandbox" in page and 'class="badge tone-bad" title="kernels ran unconfined' in page
    answer = client.post(
        reverse("attempt-merge", args=[evaluation.attempt.commit]), {"evaluation": evaluation.pk}, follow=True
    )
    assert answer.status_code == 200 and "ran without a sandbox" in "".join(map(str, answer.context["messages"]))
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        assert list(repository.history()) == []
