"""``kernelyard`` as a whole: which subcommands there are, and what is imported for one of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module

import pytest

from agentcore.cli import MODULES, main


@pytest.mark.parametrize("module", sorted(set(MODULES.values())))
def test_a_module_adds_the_subcommands_that_it_is_listed_for(module: str) -> None:
    subparsers = argparse.ArgumentParser().add_subparsers()
    import_module(module).add_parser(subparsers)
    assert list(subparsers.choices) == [command for command, of in MODULES.items() if of == module]


def test_a_word_that_is_no_subcommand_is_told_all_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nonsense"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and all(f"'{command}'" in said for command in MODULES)


def test_nothing_is_imported_for_other_subcommands_nor_torch_before_there_is_something_to_judge() -> None:
    program = """
import sys
from agentcore.cli import MODULES, main
try:
    main(["judge", "--help"])
finally:
    others = set(MODULES.values()) - {"agentcore.judge.cli"}
    print("imported:", *({*others, "torch", "numpy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].strip() == "imported:"
