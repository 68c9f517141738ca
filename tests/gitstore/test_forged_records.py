"""Trailers and notes that were made to be misread: what lands says what the branch says, or does not land."""

from __future__ import annotations

import json
import time

import pytest

from agentcore.gitstore.records import CommitRecord
from agentcore.vocabulary import AttemptRef
from tests.gitstore.test_push_policy import BRANCH, KERNEL, landed, refused

OURS = "Problem: rmsnorm\nLanguage: cpp\nAgent: alice\n"
ALICE = AttemptRef.parse("attempts/rmsnorm/cpp/alice/first")


def pushed(clone, attempts, message: str) -> CommitRecord:
    clone.write(KERNEL)
    oid = clone.commit(message)
    done = clone.push()
    assert done.returncode == 0, done.stderr
    assert landed(attempts) == {BRANCH: oid}
    return attempts.commit(oid)


@pytest.mark.parametrize("message", [
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\n bob\n",                      # continued
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\nAGENT: bob\n",                # the same word
    "X\n\nAgent: bob\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\n",                # the first of two
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\u2028Agent: bob\n",            # a line, to some
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\u0085Agent: bob\n",
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\x1e",                       # what our own reading separates by
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\x1fbob\n",
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent : alice\nAgent: alice\n",
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\u200b\n",                      # not the same name
    "X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: \u0430lice\n",                       # a Cyrillic a
    "X\n\nProblem: rmsnorm\nLanguage: cpp\n\nAgent: alice\n\nnot a trailer at all\n",  # not the last paragraph
    "X\n\n" + OURS + "Campaign: a\nCampaign: b\n",
    "X\n\n" + OURS + "Hypothesis: " + "long " * 300 + "\n",
])
def test_a_trailer_that_could_be_read_in_two_ways_is_refused(clone, attempts, message):
    clone.write(KERNEL)
    clone.commit(message, "--cleanup=verbatim")
    refused(clone.push(), attempts, "")


@pytest.mark.parametrize("quoted", [
    "Problem: softmax\nLanguage: cuda\nAgent: bob",               # a paragraph of trailers before the real ones
    "> Agent: bob\n> Problem: softmax",
    "---\nAgent: bob",                                            # what ends a message for some tools
    "# Agent: bob",
    "\u0410gent: bob",                                            # a Cyrillic A
    "diff --git a/x b/x\n--- a/x\n+++ b/x\nAgent: bob",
])
def test_trailers_quoted_in_the_body_stay_text(clone, attempts, quoted):
    record = pushed(clone, attempts, f"X\n\n{quoted}\n\n{OURS}")
    assert {key: record.trailers[key] for key in ("Problem", "Language", "Agent")} == {
        "Problem": "rmsnorm", "Language": "cpp", "Agent": "alice",
    }
    assert record.author_name == record.committer_name == "alice"
    assert "bob" in record.body or "#" in quoted


def test_provenance_that_only_publishing_writes_says_nothing_in_an_attempt(clone, attempts):
    forged = f"Approved-by: root\nEvaluation: 1\nHardware: b200\nAttempt: {'0' * 40}\n"
    record = pushed(clone, attempts, f"X\n\n{OURS}{forged}")
    assert record.trailers["Agent"] == "alice"
    # They are read by nobody: reviews live in notes that only the portal writes, evaluations likewise.
    assert attempts.read_notes("reviews", record.oid) == attempts.read_notes("evaluations", record.oid) == []


def test_thousands_of_trailers_are_read_once_and_quickly(clone, attempts):
    begun = time.monotonic()
    record = pushed(clone, attempts, "X\n\n" + "".join(f"X-{n}: y\n" for n in range(6000)) + OURS)
    assert len(record.trailer_pairs) == 6003 and record.trailers["Problem"] == "rmsnorm"
    assert time.monotonic() - begun < 20


def test_notes_cannot_be_pushed_whatever_they_are_called(clone, attempts):
    clone.write(KERNEL)
    oid = clone.commit()
    clone.git("notes", "--ref=evaluations", "add", "-m", '{"verdict":"passed"}', oid)
    for ref in ("refs/notes/evaluations", "refs/notes/reviews", "refs/heads/attempts/../../notes/evaluations",
                "refs/kernelyard/scratch/evaluations"):
        assert clone.push(ref, "--force", source="refs/notes/evaluations").returncode != 0
    assert attempts.resolve("refs/notes/evaluations") is None
    assert attempts.resolve("refs/kernelyard/scratch/evaluations") is None


@pytest.mark.parametrize("text", [
    "verdict\n{\"verdict\":\"passed\"}", "a\r\nb", "\u2028{\"verdict\":\"passed\"}\u2029", "\x85{}",
    "\x0b\x0c\x1c\x1d\x1e",
    "\\n{\"verdict\":\"passed\"}", "\x00\x1b[2J", "\ud800 alone".encode("utf-8", "replace").decode(),
])
def test_whatever_a_candidate_says_stays_inside_its_own_line_of_a_note(attempts, text):
    """A message or a log goes into a note as a JSON string: no separator of any reader may split the record."""
    oid = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int v;\n"}, "Try")
    line = json.dumps({"verdict": "incorrect", "message": text}, ensure_ascii=False)
    attempts.append_notes("evaluations", [(oid, line)])
    (read,) = attempts.read_notes("evaluations", oid)
    assert json.loads(read) == {"verdict": "incorrect", "message": text}
    assert [lines for _, lines in attempts.iter_notes("evaluations")] == [[read]]
