#!/usr/bin/env python
"""Kernelyard's portal and fleet commands; see README.md."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"{error}. Install Kernelyard first: python3 -m venv .venv && .venv/bin/pip install -e ."
        ) from error
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
