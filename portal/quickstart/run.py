"""The quick start from beginning to end: prepare, start the cluster and the portal, run tuners, merge, serve.

Everything it does an operator could do by hand with the commands of README.md; the tuners are ordinary agents that
reach the portal over HTTP. A second run goes on where the first one stopped.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from rich.console import Console
from rich.text import Text

from agentcore.vocabulary import Verdict
from portal.attempts import notes
from portal.campaigns.models import Campaign
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem
from portal.quickstart import accounts, merging, pace, preparation, requirements, waiting
from portal.quickstart.display import Display, Snapshot, campaign_table, make_display, take
from portal.quickstart.merging import Decision
from portal.quickstart.processes import Child, Supervisor
from portal.quickstart.search import Search

POLL_S = 0.5
STALLED_S = settings.EVALUATION_DEADLINE_S + 60
_FINISHED = (Evaluation.State.DONE, Evaluation.State.DUPLICATE)


@dataclass(frozen=True, slots=True)
class Options:
    once: bool
    host: str
    port: int | None
    attempts_per_problem: int
    problems: tuple[str, ...]
    agents: int
    minutes: float | None
    """No problem is begun and no attempt started later than this after the first one; None = no limit."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the last line of ``--once`` says."""

    snapshot: Snapshot
    merged: list[str]
    solutions: str

    def as_json(self) -> str:
        return json.dumps(
            {
                "attempts": self.snapshot.attempts,
                "passed": self.snapshot.passed,
                "campaign": {
                    "geomean_speedup": self.snapshot.geomean_speedup, "median_sol": self.snapshot.median_sol,
                },
                "merged": self.merged,
                "solutions": self.solutions,
            }
        )


def quickstart(options: Options, console: Console) -> Outcome:
    """Run it all; no process is left behind. Raises CommandError with what to do, KeyboardInterrupt when stopped."""
    home = Path(settings.KERNELYARD_HOME)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)
    with _only_one(home), Supervisor(home / "logs") as processes:
        try:
            return _Run(options, console, processes).run()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleaning up


class _Run:
    def __init__(self, options: Options, console: Console, processes: Supervisor) -> None:
        self.options, self.console, self.processes = options, console, processes
        self.passwords: dict[str, str] = {}
        self.problems: list[Problem] = []
        preparation.find_suite(options.problems)  # a wrong name is refused before anything is made
        try:
            self.port = requirements.choose_port(options.host, options.port)
        except OSError as error:
            raise CommandError(str(error)) from None
        reached = "127.0.0.1" if options.host in ("0.0.0.0", "::") else options.host  # noqa: S104
        self.url = f"http://{f'[{reached}]' if ':' in reached else reached}:{self.port}"

    def run(self) -> Outcome:
        try:
            with make_display(self.console) as display:
                campaign = self._prepare(display)
                services = self._start_services(display)
                decisions, ran_out = self._search(campaign, services, display)
                notes.write()
                snapshot = take(campaign)
        except BaseException:
            self._say_passwords()  # they exist nowhere else
            raise
        self.console.print(campaign_table(snapshot, {problem.name for problem in self.problems}))
        for decision in sorted(decisions, key=lambda decision: decision.problem):
            said = "merged, " if decision.merged else ""
            self.console.print(Text(f"{decision.problem}: {said}{decision.reason}"), soft_wrap=True)
        if ran_out:
            planned = self.options.attempts_per_problem
            counts = pace.made(campaign, self.problems, planned)
            self.console.print(Text(f"\n{pace.out_of_time(counts, planned)}"), soft_wrap=True)
        self._say_where()
        if not self.options.once:
            self._serve(services)
        merged = [f"{solution.problem.name}/{solution.language}" for solution in merging.current(campaign)]
        return Outcome(snapshot, merged, str(settings.SOLUTIONS_REPOSITORY))

    def _prepare(self, display: Display) -> Campaign:
        display.step("database")
        call_command("migrate", verbosity=0, interactive=False)
        Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
        self.passwords = accounts.ensure_people()
        display.step("problems")
        self.problems = preparation.import_suite(self.options.problems)
        campaign = preparation.open_campaign(self.problems)
        display.step("repositories")
        preparation.prepare()
        display.already(list(Evaluation.objects.filter(state__in=_FINISHED).values_list("pk", flat=True)))
        return campaign

    def _start_services(self, display: Display) -> list[Child]:
        display.step("the queue's workers and the portal")
        environment = {
            **os.environ, "KERNELYARD_HOME": str(settings.KERNELYARD_HOME), "KERNELYARD_PUBLIC_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        environment.pop("Q_CLUSTER_NAME", None)
        if "KERNELYARD_ALLOWED_HOSTS" not in environment and self.options.host not in settings.ALLOWED_HOSTS:
            environment["KERNELYARD_ALLOWED_HOSTS"] = ",".join([*settings.ALLOWED_HOSTS, self.options.host])
        connection.close()  # children open their own
        manage = str(settings.BASE_DIR / "manage.py")
        cluster = self.processes.start(
            "cluster", [sys.executable, manage, "qcluster"], environment=environment, cwd=settings.BASE_DIR
        )
        bind = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        portal = self.processes.start(
            "portal",
            [
                sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--bind", f"{bind}:{self.port}",
                "--workers", "1", "--threads", "8", "--timeout", "600", "--graceful-timeout", "3",
            ],
            environment=environment, cwd=settings.BASE_DIR,
        )
        self._await_portal(portal)
        display.step(f"the portal answers at {self.url}/")
        self._say_passwords()  # now: whoever wants to look on must not wait for the end
        return [cluster, portal]

    def _await_portal(self, portal: Child, patience_s: float = 60.0) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            _require_running([portal])
            try:
                with opener.open(f"{self.url}/api/v1/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise CommandError(f"the portal did not answer within {patience_s:.0f} s; see {portal.log}")

    def _start_tuner(
        self, campaign: Campaign, name: str, problem: Problem, attempts: int, minutes: float | None
    ) -> Child:
        agent, token = accounts.ensure_agent(name)
        # An agent gets what any agent has: its address and its token, nothing of the portal's own environment.
        environment = {
            key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "LC_ALL", "TMPDIR", "HOME")
        }
        scheme, _, rest = self.url.partition("://")
        environment["KERNELYARD_ATTEMPTS_URL"] = f"{scheme}://{agent.name}:{token}@{rest}/git/attempts.git"
        command = [
            sys.executable, "-m", "agentcore.agents.tuner", "--language", campaign.language, "--hardware",
            campaign.hardware, "--campaign", campaign.name, "--seed", name.removeprefix(accounts.TUNER_PREFIX),
            "--problem", problem.name, "--attempts", str(attempts),
        ]
        if minutes is not None:
            command += ["--minutes", f"{minutes:.3f}"]
        return self.processes.start(agent.name, command, environment=environment, cwd=settings.BASE_DIR)

    def _search(
        self, campaign: Campaign, services: Sequence[Child], display: Display
    ) -> tuple[list[Decision], bool]:
        """Have the tuners work and merge what they found; what became of each problem, and whether time ran out."""
        decided: dict[int, Decision] = {}

        def merge(problems: Sequence[Problem]) -> None:
            _tell(campaign, display)
            self._sanitize(campaign, problems, services, display)
            _tell(campaign, display)
            for problem in problems:
                (decided[problem.pk],) = merging.merge_best(campaign, accounts.reviewer(), problems=[problem])
                if decided[problem.pk].merged:
                    display.step(f"{problem.name}: merged, {decided[problem.pk].reason}")

        planned, minutes = self.options.attempts_per_problem, self.options.minutes
        search = Search(
            campaign, self.problems, lanes=self.options.agents, attempts=planned,
            seconds=None if minutes is None else 60 * minutes, start=partial(self._start_tuner, campaign),
            merge=lambda problem: merge([problem]), say=display.step,
        )
        so_far = pace.so_far(pace.made(campaign, self.problems, planned), planned)
        display.step(f"{self.options.agents} tuner(s) at work, {planned} attempts per problem: {so_far}")
        last_change, last, looks = time.monotonic(), None, 0
        while True:
            _require_running(services)
            if not search.step():
                break
            looks += 1
            time.sleep(POLL_S)
            if looks % 3:  # looking at everything takes time from what is being measured
                continue
            display.update(take(campaign))
            display.waits(held_up := waiting.held_up(campaign))
            now = (_tell(campaign, display), len(search.begun))
            if now != last or (held_up and held_up.is_paused):  # a pause may last
                last_change, last = time.monotonic(), now
            elif time.monotonic() - last_change > STALLED_S:
                raise CommandError(f"no evaluation ended in {STALLED_S} s; see {services[0].log}")
        if search.failed and len(search.failed) == len(search.begun):
            raise CommandError(f"no tuner could work:\n{next(iter(search.failed.values())).last_words()}")
        merge([problem for problem in self.problems if problem.pk not in decided])
        return list(decided.values()), search.out_of_time

    def _sanitize(
        self, campaign: Campaign, problems: Sequence[Problem], services: Sequence[Child], display: Display
    ) -> None:
        runs = merging.ask_for_sanitizers(campaign, accounts.reviewer(), problems)
        if not runs:
            return
        deadline = time.monotonic() + STALLED_S
        left = Evaluation.objects.filter(pk__in=[run.pk for run in runs], state__in=Evaluation.PENDING)
        while left.exists():
            _require_running(services)
            if time.monotonic() > deadline:
                display.step(f"sanitizers did not finish in {STALLED_S} s; see {services[0].log}")
                return  # the merge then says what is missing
            display.waits(waiting.held_up(campaign))
            time.sleep(POLL_S)
        for run in Evaluation.objects.filter(pk__in=[run.pk for run in runs]).exclude(verdict=Verdict.CLEAN.value):
            display.finished(run)

    def _say_passwords(self) -> None:
        for name, password in self.passwords.items():
            self.console.print(Text(f"sign in    {name} / {password}   (kept nowhere else)"), soft_wrap=True)

    def _say_where(self) -> None:
        ended = "   (stopped with this run; without --once it goes on serving)" if self.options.once else ""
        self.console.print(Text(f"\nportal     {self.url}/{ended}"), soft_wrap=True)
        self._say_passwords()
        lines = [] if self.passwords else ["sign in    as before; a lost password: manage.py changepassword admin"]
        lines += [
            f"solutions  git clone {self.url}/git/solutions.git",
            f"attempts   git clone --single-branch {self.url}/git/attempts.git   (push: manage.py createagent NAME)",
        ]
        self.console.print(Text("\n".join(lines)), soft_wrap=True)

    def _serve(self, services: Sequence[Child]) -> None:
        self.console.print(Text("\nserving until Ctrl-C"))
        connection.close()
        while True:
            _require_running(services)
            time.sleep(1)


def _tell(campaign: Campaign, display: Display) -> int:
    """Have the display say what ended; how many evaluations have ended in all."""
    finished = Evaluation.objects.filter(state__in=_FINISHED, hardware=campaign.hardware)
    news = list(
        finished.select_related("attempt__problem", "attempt__agent", "duplicate_of").defer("result")
        .order_by("finished_at", "id")
    )
    for evaluation in news:
        display.finished(evaluation)
    return len(news)


def _require_running(children: Sequence[Child]) -> None:
    for child in children:
        if not child.running():
            code = child.process.returncode
            raise CommandError(f"the {child.name} ended ({code}); its last words:\n{child.last_words()}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    descriptor = os.open(home / "quickstart.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                f"a quick start is already running in {home}: stop it with Ctrl-C first, or set KERNELYARD_HOME to"
                " another directory for one beside it"
            ) from None
        yield
    finally:
        os.close(descriptor)
