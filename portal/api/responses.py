"""Answers and errors of the JSON interface, and how a request's parameters are read. Not for what a row looks like."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse


class ApiError(Exception):
    """Becomes ``{"error": message}`` with its status. The message says what to do."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def answer(data: dict[str, Any], status: int = 200) -> JsonResponse:
    """JSON that no browser renders as a page and no cache keeps: a verdict may arrive any second."""
    response = JsonResponse(data, status=status, json_dumps_params={"ensure_ascii": False})
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def json_view(view: Callable[..., dict[str, Any]]) -> Callable[..., HttpResponse]:
    """A read-only view that returns a dict or raises ApiError."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            response = answer({"error": "this interface is read-only; attempts are pushed with git"}, 405)
            response["Allow"] = "GET, HEAD"
            return response
        try:
            return answer(view(request, *args, **kwargs))
        except ApiError as error:
            return answer({"error": str(error)}, error.status)

    return wrapped


def integer(request: HttpRequest, name: str, default: int, low: int, high: int) -> int:
    """A whole-number parameter within bounds. Raises ApiError naming it."""
    text = request.GET.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise ApiError(f"{name} must be a whole number from {low} to {high}")
    return value


def choice(request: HttpRequest, name: str, allowed: set[str]) -> str | None:
    """A parameter out of a fixed set, or None where it is absent. Raises ApiError naming it."""
    value = request.GET.get(name)
    if not value:
        return None
    if value not in allowed:
        raise ApiError(f"{name} must be one of: {', '.join(sorted(allowed))}")
    return value
