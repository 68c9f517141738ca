"""Serves plotly.js from the installed Python package, so that nothing is fetched and nothing is vendored."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.storage import FileSystemStorage

PLOTLY_DIRECTORY = Path(str(files("plotly") / "package_data"))
PLOTLY_FILE = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Finds exactly one file: ``plotly/plotly.min.js`` of the plotly package."""

    prefix = "plotly"
    file_name = PLOTLY_FILE

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.directory = PLOTLY_DIRECTORY
        self.storage = FileSystemStorage(location=str(self.directory))
        self.storage.prefix = self.prefix

    def check(self, **kwargs: object) -> list:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: object):
        found = str(self.directory / self.file_name) if path == f"{self.prefix}/{self.file_name}" else None
        if find_all:
            return [found] if found else []
        return found

    def list(self, ignore_patterns):
        yield self.file_name, self.storage


@cache
def map_style_id() -> str:
    """The id under which plotly.js looks for its map styles before it injects them; empty if it looks for none.

    The page has an element with this id: the injected ``<style>`` would violate its content security policy, and no
    page draws a map.
    """
    script = (PLOTLY_DIRECTORY / PLOTLY_FILE).read_text(encoding="utf-8", errors="replace")
    found = re.search(r'getElementById\("([0-9a-f]{32,64})"\)', script)
    return found[1] if found else ""
