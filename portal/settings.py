"""Settings of the portal. Everything an operator may set is an environment variable named KERNELYARD_*.

KERNELYARD_HOME          run-time data: repositories, SQLite, caches (default: ./var beside manage.py)
KERNELYARD_BLOBS         directories, separated by colons, with the data files (safetensors) of imported problems
KERNELYARD_DATABASE_URL  postgresql://user:password@host/name for fleets (default: SQLite); ?host=/dir for a socket,
                         ?sslmode=verify-full&sslrootcert=/file between hosts
KERNELYARD_GIT_URL       only on further hosts of a fleet: the portal's attempts repository as reached from there,
                         such as http://portal:8000/git/attempts.git (default: this is the portal's own host)
KERNELYARD_SECRET_KEY    signing key, the same on all hosts of a fleet (default: on the portal's host generated once,
                         kept mode 0600 as secret_key under the home)
KERNELYARD_DEBUG         1 turns on Django's debug pages (default: off)
KERNELYARD_ALLOWED_HOSTS comma-separated host names (default: localhost and loopback addresses)
KERNELYARD_PUBLIC_URL    the portal's address as agents and visitors reach it (default: http://127.0.0.1:8000)
KERNELYARD_WORKERS       evaluations judged at the same time by one cluster on this host (default: 1)
KERNELYARD_DEFAULT_GPU   hardware of GPU attempts that belong to no campaign: b200, h200 or h100 (default: h200)
KERNELYARD_SANDBOX       auto, bubblewrap, unshare or none (default: auto; results without a sandbox are never merged)
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent


def _one_of(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """A setting that has a few values. A misspelt one is said at the start, not at the first push that meets it."""
    value = os.environ.get(name) or default
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}: {value!r} is none of {', '.join(allowed)}")
    return value


def _count(name: str) -> int:
    value = os.environ.get(name) or "1"
    if not value.isdecimal() or int(value) < 1:
        raise ImproperlyConfigured(f"{name}: {value!r} is no whole number from 1")
    return int(value)


KERNELYARD_HOME = Path(os.environ.get("KERNELYARD_HOME") or BASE_DIR / "var").resolve()
try:
    KERNELYARD_HOME.mkdir(parents=True, exist_ok=True)
except OSError as error:
    raise ImproperlyConfigured(f"KERNELYARD_HOME: {KERNELYARD_HOME} cannot be made: {error.strerror}") from None

PROBLEMS_DIR = BASE_DIR / "problems"
KERNELS_SEED_DIR = BASE_DIR / "kernels_repo"
PROTOCOL_PATH = BASE_DIR / "protocol.md"
ATTEMPTS_REPOSITORY = KERNELYARD_HOME / "attempts.git"
SOLUTIONS_REPOSITORY = KERNELYARD_HOME / "solutions.git"
CACHE_DIR = KERNELYARD_HOME / "cache"
# Where it is set, this host only judges: kernels come from a mirror, and the repositories are written elsewhere.
GIT_URL = os.environ.get("KERNELYARD_GIT_URL", "").strip().rstrip("/")
ATTEMPTS_MIRROR = KERNELYARD_HOME / "attempts-mirror.git"
if GIT_URL:
    from agentcore.gitstore.mirror import check_url

    try:
        check_url(GIT_URL)
    except ValueError as error:
        raise ImproperlyConfigured(f"KERNELYARD_GIT_URL: {error}") from None
PUBLIC_URL = os.environ.get("KERNELYARD_PUBLIC_URL", "http://127.0.0.1:8000").rstrip("/")


def _secret_key() -> str:
    """The signing key: from the environment, or generated once into a file only its owner reads.

    A further host of a fleet must be given the portal's: with a key of its own it could read no message of the queue.
    """
    if key := os.environ.get("KERNELYARD_SECRET_KEY"):
        return key
    path = KERNELYARD_HOME / "secret_key"
    if GIT_URL and not path.exists():
        raise ImproperlyConfigured(
            "KERNELYARD_GIT_URL is set, so this host needs the portal's signing key: copy secret_key from the "
            f"portal's KERNELYARD_HOME to {path} (mode 0600), or set KERNELYARD_SECRET_KEY to what it holds"
        )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_urlsafe(50)
        file.write(key)
    return key


_DATABASE_OPTIONS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout"}


def _databases() -> dict[str, dict[str, object]]:
    url = os.environ.get("KERNELYARD_DATABASE_URL")
    if not url:
        return {
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": KERNELYARD_HOME / "kernelyard.sqlite3",
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "timeout": 30,
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
                },
            }
        }
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"KERNELYARD_DATABASE_URL: scheme {parts.scheme!r} is not postgresql")
    query = dict(parse_qsl(parts.query))
    # A socket directory goes into the query (?host=/run/postgresql): a URL's host name loses its case.
    host = query.pop("host", "") or unquote(parts.hostname or "")
    if unknown := set(query) - _DATABASE_OPTIONS:
        raise ImproperlyConfigured(f"KERNELYARD_DATABASE_URL: {', '.join(sorted(unknown))} is not an option of it")
    return {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": host,
            "PORT": str(parts.port or ""),
            "CONN_MAX_AGE": 60,
            "OPTIONS": query,
        }
    }


SECRET_KEY = _secret_key()
DEBUG = os.environ.get("KERNELYARD_DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("KERNELYARD_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL.startswith("https://") else []

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_filters",
    "django_htmx",
    "django_q",
    "csp",
    "portal.problems",
    "portal.agents",
    "portal.campaigns",
    "portal.baselines",
    "portal.attempts",
    "portal.evaluations",
    "portal.devices",
    "portal.solutions",
    "portal.events",
    "portal.githttp",
    "portal.api",
    "portal.pages",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "portal" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = _databases()
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "home"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = KERNELYARD_HOME / "static"
STATIC_ROOT.mkdir(exist_ok=True)  # collectstatic fills it; without, whitenoise serves from the apps
STATICFILES_DIRS = [BASE_DIR / "portal" / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "portal.pages.staticfiles.PlotlyFinder",
]
WHITENOISE_USE_FINDERS = True

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")

# One evaluation's own deadline is below q2's timeout; retry leaves room for prefetched tasks, so that none runs
# twice (each message only says "there may be work": see portal/evaluations/queue.py).
EVALUATION_DEADLINE_S = 900
Q_TIMEOUT_S = EVALUATION_DEADLINE_S + 60
Q_CLUSTER = {
    "name": "kernelyard",
    "orm": "default",
    "workers": _count("KERNELYARD_WORKERS"),
    "timeout": Q_TIMEOUT_S,
    "retry": 3 * (Q_TIMEOUT_S + 4) + 60,
    "queue_limit": 1,
    "bulk": 1,
    "max_attempts": 1,
    "ack_failures": True,
    "catch_up": False,
    "guard_cycle": 0.5,
    "poll": 0.5,
    "save_limit": 1000,
    "label": "Queue",
    # One cluster per hardware class, started as `manage.py fleet --hardware h200` on every host with such GPUs. The
    # one named above also takes what waits for `cpu`, and what is to be compiled only where there is nvcc, and does the
    # housekeeping: it runs on the portal's host only.
    "broker_class": "portal.evaluations.broker.Broker",
    "ALT_CLUSTERS": {"b200": {}, "h200": {}, "h100": {}, "cpu": {}, "compile": {}},
}
GIT_FETCH_TIMEOUT_S = 120  # both tries together; counted as part of the evaluation's deadline
COMPARISON_ROUNDS = 8  # of an A/B comparison: so often both kernels are measured
COMPARISON_BUDGET_S = EVALUATION_DEADLINE_S * 2 / 3  # fewer rounds where so many would take longer
EVALUATION_LEASE_S = 30
EVALUATION_MAX_CLAIMS = 3
EVALUATION_RETRY_PAUSE_S = 30  # times the number of claims so far, after a failure that is not the attempt's fault
SANDBOX = _one_of("KERNELYARD_SANDBOX", "auto", ("auto", "bubblewrap", "unshare", "none"))
JUDGE_IDLE_S = 300  # a judge process unused for so long gives its memory and device back
DEFAULT_GPU = _one_of("KERNELYARD_DEFAULT_GPU", "h200", ("b200", "h200", "h100"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"portal": {"level": "INFO"}, "agentcore": {"level": "INFO"}},
}
