"""Problem directories into rows, and the starting tree."""

from __future__ import annotations

import json
import shutil

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command

from agentcore.gitstore import MAIN, AttemptsRepository
from portal.attempts.repository import ensure_repositories
from portal.events.models import Event
from portal.problems.importing import import_problem, import_problems
from portal.problems.models import Problem
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


def test_an_import_keeps_definition_reference_and_every_list_of_workloads(tmp_path):
    problem = import_problem(repos.write_problem(tmp_path)).problem
    assert problem.definition["axes"]["hidden"]["value"] == 8
    assert problem.reference.startswith("def run")
    assert "reference" not in problem.definition or not problem.definition["reference"]
    assert [(w.target, w.uuid, w.axes) for w in problem.workloads.order_by("target", "index")] == [
        ("cpu", "c4", {"batch": 4}), ("cpu", "c16", {"batch": 16}),
        ("gpu", "w4", {"batch": 4}), ("gpu", "w16", {"batch": 16}),
        ("heldout", "h7", {"batch": 7}),
    ]
    assert problem.workloads.get(uuid="w4").tolerance["max_atol"] == 1e-5


def test_a_second_import_changes_nothing(tmp_path):
    path = repos.write_problem(tmp_path)
    first = import_problem(path)
    again = import_problem(path)
    assert (first.change, again.change) == ("created", "unchanged")
    copy = shutil.copytree(path, tmp_path / "elsewhere" / path.name)
    moved = import_problem(copy)
    assert (moved.change, moved.problem.source_path) == ("unchanged", str(copy.resolve()))
    assert Event.objects.filter(kind__startswith="problem.").count() == 1


def test_a_re_import_updates_in_place_and_keeps_history(tmp_path):
    problem = import_problem(repos.write_problem(tmp_path)).problem
    make.make_attempt(problem)
    digest = problem.digest
    outcome = import_problem(repos.write_problem(tmp_path, batches=(4, 32)))
    assert (outcome.problem.pk, outcome.change) == (problem.pk, "updated")
    assert outcome.problem.digest != digest
    assert problem.attempts.count() == 1
    current = problem.workloads.filter(target="gpu", is_current=True)
    assert [(w.uuid, w.index) for w in current] == [("w4", 0), ("w32", 1)]
    assert problem.workloads.get(uuid="w16").is_current is False


def test_a_workload_that_returns_is_current_again(tmp_path):
    for batches in ((4, 16), (4,), (4, 16)):
        problem = import_problem(repos.write_problem(tmp_path, batches=batches)).problem
    assert problem.workloads.get(uuid="w16").is_current


def test_a_broken_problem_is_reported_and_stops_no_other(tmp_path, capsys):
    repos.write_problem(tmp_path, "good")
    broken = repos.write_problem(tmp_path, "broken")
    (broken / "workload.jsonl").write_text('{"uuid": "w"')
    outcomes = import_problems([tmp_path, tmp_path / "nothing"])
    assert [(o.path.name, bool(o.error)) for o in outcomes] == [("broken", True), ("good", False), ("nothing", True)]
    assert "workload.jsonl" in outcomes[0].error
    with pytest.raises(CommandError, match="1 of 2"):
        call_command("importproblems", str(tmp_path))
    assert Problem.objects.get().name == "good"


def test_an_import_says_all_that_is_wrong_and_warns_of_what_is_odd(tmp_path, capsys):
    odd, broken = repos.write_problem(tmp_path, "odd"), repos.write_problem(tmp_path, "broken")
    lines = (odd / "workload.jsonl").read_text().splitlines()
    (odd / "workload.jsonl").write_text("\n".join([json.dumps(json.loads(lines[0]) | {"tolerence": {}}), *lines[1:]]))
    (broken / "workload.jsonl").write_text("{\n" + lines[0] + "\n[\n")
    (broken / "reference.py").write_text("def run(x):\n    return x\n")
    with pytest.raises(CommandError, match="1 of 2"):
        call_command("importproblems", str(tmp_path))
    said = capsys.readouterr()
    assert "odd: created\n  warning: " in said.out and "workload.jsonl:1: tolerence: is no field" in said.out
    for place in ("workload.jsonl:1: is not JSON", "workload.jsonl:3: is not JSON", "reference.py:1: run(x) takes 1"):
        assert f"{broken}/{place}" in said.err


def test_the_starting_tree_holds_public_files_and_headers_but_no_secret(tmp_path):
    repos.start(tmp_path)
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        main = repository.resolve(MAIN)
        names = set(repository.names(main, "problems/scale"))
        header = repository.read_file(main, "problems/scale/problem.cpp.h").decode()
    assert {"definition.json", "reference.py", "workload.jsonl", "workload.cpu.jsonl", "README.md"} <= names
    assert "heldout.jsonl" not in names
    assert "kernel_launch" in header


def test_bringing_the_starting_tree_up_to_date_commits_only_changes(tmp_path):
    repos.start(tmp_path)

    def main() -> str:
        with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
            return repository.resolve(MAIN)

    before = main()
    ensure_repositories()
    assert main() == before
    import_problem(repos.write_problem(django_settings.PROBLEMS_DIR, "other"))
    ensure_repositories()
    assert main() != before


def test_importing_brings_what_agents_start_from_up_to_date_itself(tmp_path, capsys):
    repos.start(tmp_path)
    call_command("importproblems", str(repos.write_problem(django_settings.PROBLEMS_DIR, "other")))
    said = capsys.readouterr().out
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        main = repository.resolve(MAIN)
        assert "definition.json" in repository.names(main, "problems/other")
    assert f"brought up to date by commit {main[:10]}" in said
    call_command("importproblems", str(django_settings.PROBLEMS_DIR))
    assert "attempts.git, from which agents start: was up to date" in capsys.readouterr().out


def test_importing_before_there_are_repositories_says_what_creates_them(tmp_path, home, capsys):
    call_command("importproblems", str(repos.write_problem(tmp_path)))
    assert "manage.py initrepos creates it" in capsys.readouterr().out
    assert not (home / "attempts.git").exists()


def test_a_repository_that_git_cannot_read_is_named_after_the_import(tmp_path, home):
    (home / "attempts.git").mkdir()
    with pytest.raises(CommandError, match=r"imported, but main of .*attempts\.git.* manage\.py initrepos"):
        call_command("importproblems", str(repos.write_problem(tmp_path)))
    assert Problem.objects.get().name == "scale"
