"""protocol.md and README.md say what the code does: names, limits, fields and commands are compared with it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agentcore import paths
from agentcore.gitstore import attempts, policy
from agentcore.vocabulary import CheckName, Language, Verdict
from tests.portal import factories as make

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = (ROOT / "protocol.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def test_every_verdict_and_check_is_explained() -> None:
    for name in [*Verdict, *CheckName]:
        assert f"`{name}`" in PROTOCOL, name


def test_every_language_and_its_source_file_are_named() -> None:
    for language in Language:
        assert language.value in PROTOCOL
        assert f"`{language.source_name}`" in PROTOCOL


def test_the_file_rules_are_the_servers() -> None:
    assert all(re.search(rf"[` ]{re.escape(suffix)}\b", PROTOCOL) for suffix in paths.SUFFIXES)
    assert f"at most {paths.MAX_FILES} files" in PROTOCOL
    assert f"{paths.MAX_FILE_BYTES >> 20} MiB each, {paths.MAX_TOTAL_BYTES >> 20} MiB together" in PROTOCOL
    assert f"{attempts.MAX_PUSH_BYTES >> 20} MiB and {policy.MAX_COMMITS} commits per push" in PROTOCOL


def test_the_example_message_carries_the_trailers_that_a_push_needs() -> None:
    (example,) = re.findall(r"```text\n(Load 16 values.*?)```", PROTOCOL, re.DOTALL)
    parsed = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=example, check=True, capture_output=True, text=True
    ).stdout
    assert [line.split(":")[0] for line in parsed.splitlines()] == ["Problem", "Language", "Agent", "Hypothesis"]


def _keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in _keys(item)}
    if isinstance(value, list):
        return {key for item in value for key in _keys(item)}
    return set()


@pytest.mark.django_db
def test_every_field_of_the_json_is_documented(client) -> None:
    problem = make.make_problem("rmsnorm")
    make.make_baseline(problem)
    campaign = make.make_campaign("spring", problems=[problem])
    attempt = make.make_attempt(problem, campaign=campaign)
    make.make_evaluation(attempt, result=make.make_result(attempt))

    def fields(path: str, *leave_out: str) -> set[str]:
        answer = client.get(f"/api/v1/{path}").json()
        for name in ("stamp", "seconds", "build", "definition", "tolerance", "axes", "budget", *leave_out):
            _drop(answer, name)
        return _keys(answer)

    found = fields("campaigns") | fields("campaigns/spring") | fields("problems") | fields("problems/rmsnorm")
    found |= fields(f"attempts/{attempt.commit}") | fields("problems/rmsnorm/history")
    assert {name for name in found if not re.search(rf"\b{name}\b", PROTOCOL)} == set()


def _drop(value: object, name: str) -> None:
    if isinstance(value, dict):
        value.pop(name, None)
        for item in value.values():
            _drop(item, name)
    elif isinstance(value, list):
        for item in value:
            _drop(item, name)


def test_the_two_commands_of_the_readme_are_the_promised_ones() -> None:
    install = "python3 -m venv .venv && .venv/bin/pip install -e"
    assert f"\n{install} . && .venv/bin/python manage.py quickstart\n" in README
    assert f"\n{install} '.[test]' && .venv/bin/pytest\n" in README


def test_paths_named_in_the_readme_exist() -> None:
    for path in re.findall(r"\| `([a-z_./]+)` \|", README):
        assert (ROOT / path).exists(), path
