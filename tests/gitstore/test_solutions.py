"""Publishing: what goes in, what is refused, who is named, and what is left when a step fails."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from agentcore.gitstore import MAIN, GitStoreError, Identity, Lost, Publication, SolutionsRepository
from agentcore.vocabulary import HardwareName, Language

PUBLICATION = Publication(
    problem="rmsnorm",
    language=Language.CPP,
    hardware=HardwareName.CPU,
    attempt="a" * 40,
    files={"kernel.cpp": b"int a;\n", "sub/tile.h": b"t\n"},
    subject="Publish rmsnorm",
    body="Twice as fast.",
    author=Identity.of_agent("alice"),
    committer=Identity.of_person("Ann Engineer", "ann@example.org"),
    trailers={"Evaluation": "7", "Approved-by": "Ann Engineer"},
    extra_files={"result.json": b"{}\n"},
    problem_files={"definition.json": b"{}\n", "workload.jsonl": b"{}\n", "reference.py": b"pass\n"},
    harness_version="1",
    summary={"speedup": 1.5, "sol_score": 0.61},
)


def paths(repository: SolutionsRepository) -> set[str]:
    return {entry.path for entry in repository.entries(repository.resolve(MAIN))}


def test_a_solution_is_published_with_what_is_needed_to_measure_it_again(solutions):
    oid = solutions.publish(PUBLICATION)
    assert solutions.resolve(MAIN) == oid
    where = "solutions/rmsnorm/cpp-cpu"
    assert paths(solutions) == {
        "README.md", f"{where}/kernel.cpp", f"{where}/sub/tile.h", f"{where}/result.json", f"{where}/solution.json",
        "problems/rmsnorm/definition.json", "problems/rmsnorm/workload.jsonl", "problems/rmsnorm/reference.py",
    }
    about = json.loads(solutions.read("rmsnorm", "cpp", "cpu")["solution.json"])
    assert about["commit"] == "a" * 40
    assert {"problem", "language", "hardware", "harness_version"} <= set(about)
    assert b"| [rmsnorm](solutions/rmsnorm/cpp-cpu) | cpp | cpu | 1.50\xc3\x97 | 0.610 | alice | `aaaaaaaaaaaa` |" in (
        solutions.read_file(oid, "README.md")
    )


def test_the_agent_is_the_author_and_the_reviewer_the_committer(solutions):
    record = solutions.commit(solutions.publish(PUBLICATION))
    assert (record.author_name, record.author_email) == ("alice", "alice@agents.kernelyard")
    assert (record.committer_name, record.committer_email) == ("Ann Engineer", "ann@example.org")
    assert record.trailers == {
        "Problem": "rmsnorm", "Language": "cpp", "Hardware": "cpu", "Attempt": "a" * 40, "Evaluation": "7",
        "Approved-by": "Ann Engineer",
    }
    assert record.body == "Twice as fast."
    assert list(solutions.history()) == [record]


def test_an_agents_text_cannot_pose_as_trailers(solutions):
    record = solutions.commit(solutions.publish(replace(PUBLICATION, body="Approved-by: The Chief\nAttempt: forged")))
    assert record.trailers["Attempt"] == "a" * 40
    assert [value for key, value in record.trailer_pairs if key == "Approved-by"] == ["Ann Engineer"]


def test_a_new_solution_replaces_the_one_before_and_leaves_others_alone(solutions):
    solutions.publish(PUBLICATION)
    solutions.publish(replace(PUBLICATION, language=Language.TORCH, files={"kernel.py": b"x\n"}, attempt="b" * 40))
    solutions.publish(replace(PUBLICATION, files={"kernel.cpp": b"int better;\n"}, attempt="c" * 40))
    assert set(solutions.read("rmsnorm", "cpp", "cpu")) == {"kernel.cpp", "result.json", "solution.json"}
    assert [(entry.path, entry.commit[0]) for entry in solutions.current()] == [
        ("solutions/rmsnorm/cpp-cpu", "c"), ("solutions/rmsnorm/torch-cpu", "b"),
    ]
    assert [record.trailers["Attempt"][0] for record in solutions.history()] == ["a", "b", "c"]
    assert solutions.read("rmsnorm", "cuda", "b200") == {}


def test_publishing_the_same_again_changes_nothing(solutions):
    assert solutions.publish(PUBLICATION) == solutions.publish(PUBLICATION)
    assert len(list(solutions.history())) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"files": {"kernel.cpp": b"x", "../../README.md": b"x"}}, "not a plain path"),
        ({"files": {"kernel.cpp": b"x", ".gitattributes": b"x"}}, "meaning for git"),
        ({"files": {"kernel.cpp": b"x", "payload.so": b"x"}}, "only these kinds"),
        ({"files": {"kernel.cpp": b"x", "result.json": b"{}"}}, "taken by the record"),
        ({"files": {"kernel.cpp": b"x", "problem.h/a.h": b""}}, "cannot be a directory"),
        ({"files": {"kernel.cpp": b"x" * ((1 << 20) + 1)}}, "more than 1048576"),
        ({"files": {"kernel.cpp": b"x", "A.h": b"", "a.h": b""}}, "differ only in case"),
        ({"files": {"other.h": b"x"}}, r"kernel\.cpp is missing"),
        ({"extra_files": {"solution.json": b"{}"}}, "written by the publication"),
        ({"problem_files": {"heldout.jsonl": b"{}"}}, "secret"),
        ({"problem_files": {"../x": b"{}"}}, "not a plain path"),
        ({"problem": "../evil"}, "no problem name"),
        ({"attempt": "HEAD"}, "no full commit id"),
    ],
)
def test_what_may_not_be_public_is_refused_and_leaves_no_trace(solutions, change, words):
    before = solutions.resolve(MAIN)
    with pytest.raises(GitStoreError, match=words):
        solutions.publish(replace(PUBLICATION, **change))
    assert solutions.resolve(MAIN) == before


def test_a_step_that_fails_leaves_main_as_it_was(solutions, monkeypatch):
    before = solutions.resolve(MAIN)

    def fail(*arguments, **options):
        raise GitStoreError("disk full")

    monkeypatch.setattr(solutions, "write_commit", fail)
    with pytest.raises(GitStoreError, match="disk full"):
        solutions.publish(PUBLICATION)
    assert solutions.resolve(MAIN) == before


def test_two_publishers_at_once_both_land(solutions, monkeypatch):
    real = solutions.move

    def with_a_rival(ref, new, old):
        monkeypatch.setattr(solutions, "move", real)
        with SolutionsRepository.open(solutions.path) as rival:
            rival.publish(replace(PUBLICATION, problem="softmax", attempt="b" * 40))
        real(ref, new, old)

    monkeypatch.setattr(solutions, "move", with_a_rival)
    solutions.publish(PUBLICATION)
    assert [entry.problem for entry in solutions.current()] == ["rmsnorm", "softmax"]
    readme = solutions.read_file(solutions.resolve(MAIN), "README.md").decode()
    assert "[rmsnorm]" in readme
    assert "[softmax]" in readme


def test_a_publisher_that_always_loses_gives_up_loudly(solutions, monkeypatch):
    def lose(ref, new, old):
        raise Lost("moved")

    monkeypatch.setattr(solutions, "move", lose)
    with pytest.raises(Lost):
        solutions.publish(PUBLICATION)


def test_a_reviewers_odd_name_is_made_fit_for_git(solutions):
    odd = Identity.of_person("Ann <ann@evil>\n\x00", "")
    record = solutions.commit(solutions.publish(replace(PUBLICATION, committer=odd)))
    assert record.committer_name == "Ann ann@evil"
    with pytest.raises(ValueError, match="control character"):
        Identity("a\nb", "x@y")


def test_the_result_is_a_sound_repository_that_clones(solutions, tmp_path):
    solutions.publish(PUBLICATION)
    subprocess.run(["git", "clone", "-q", str(solutions.path), str(tmp_path / "clone")], check=True)
    assert (tmp_path / "clone/solutions/rmsnorm/cpp-cpu/kernel.cpp").read_bytes() == b"int a;\n"
    fsck = subprocess.run(
        ["git", "-C", str(solutions.path), "fsck", "--strict"], capture_output=True, text=True, check=False
    )
    assert fsck.returncode == 0, fsck.stderr
