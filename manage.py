#!/usr/bin/env python
"""Kernelyard's portal and fleet commands; see README.md."""

import os
import re
import shutil
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"{error}. Install Kernelyard first: python3 -m venv .venv && .venv/bin/pip install -e ."
        ) from error
    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        remedy = _remedy(error)
        if not remedy or "--traceback" in sys.argv:
            raise
        raise SystemExit(remedy) from None


def _remedy(error: Exception) -> str:
    """What to do about what a fresh host lacks, empty where it is something else."""
    from django.db import OperationalError, ProgrammingError

    if isinstance(error, ImportError) and shutil.which("git") is None:  # GitPython refuses to be imported without it
        return "git is not on PATH (attempts and solutions are kept in it); install the Debian package git"
    lacks = re.search(r"no such (table|column)|(relation|column) .* does not exist", str(error))
    if isinstance(error, OperationalError | ProgrammingError) and lacks:
        return f"the database lacks what this version needs ({str(error).splitlines()[0]}); run: manage.py migrate"
    return ""


if __name__ == "__main__":
    main()
