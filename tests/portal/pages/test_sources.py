"""The files of a kernel on its page, read from a real attempts repository."""

from __future__ import annotations

import pytest
from django.conf import settings

from agentcore.gitstore import AttemptsRepository
from agentcore.vocabulary import AttemptRef
from portal.pages import highlighting, sources
from tests.portal import factories as make


@pytest.mark.django_db
def test_the_files_of_one_page_share_one_budget_of_colours() -> None:
    large = b"int answer = 42;  // and a comment that makes it long, so that few lines are many bytes\n" * 1_000
    assert len(large) * 2 < highlighting.HIGHLIGHT_BUDGET < len(large) * 3
    contents = dict.fromkeys(["a.h", "b.h", "c.h", "kernel.cpp"], large) | {"z.h": b"int last;\n"}
    ref = AttemptRef.parse("attempts/rmsnorm/cpp/ada/many-files")
    with AttemptsRepository.create(settings.ATTEMPTS_REPOSITORY, [("README.md", b"kernels\n")]) as repository:
        commit = repository.commit_attempt(ref, contents, "Spread it over files\n\nHypothesis: none.")
    attempt = make.make_attempt(make.make_problem("rmsnorm"), make.make_agent("ada"), slug="many-files", commit=commit)

    files, trouble = sources.kernel_files(attempt)
    assert trouble == ""
    assert [(file.path, "hl-" in str(file.html)) for file in files] == [
        ("a.h", True), ("b.h", True), ("c.h", False), ("kernel.cpp", False), ("z.h", True),
    ]
    assert "int answer = 42;" in str(files[2].html)
