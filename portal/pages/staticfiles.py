"""Serves plotly.js from the installed Python package, so that nothing is fetched and nothing is vendored."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.storage import FileSystemStorage


class PlotlyFinder(BaseFinder):
    """Finds exactly one file: ``plotly/plotly.min.js`` of the plotly package."""

    prefix = "plotly"
    file_name = "plotly.min.js"

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.directory = Path(str(files("plotly") / "package_data"))
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
