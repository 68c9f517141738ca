"""`manage.py selftest`: put every known cheat to the judge of this host, and keep what came of it."""

from __future__ import annotations

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from agentcore.vocabulary import HardwareName
from portal.devices import record
from portal.devices.record import NotAReport
from portal.devices.running import CannotRun, run_selftest


class Command(BaseCommand):
    help = (
        "Run the cheat corpus on a device of this host and keep the result for the portal, or keep the file that "
        "kernelyard selftest --json wrote on another host. Exit status 1 where the device did not pass."
    )

    def add_arguments(self, parser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--hardware", choices=[member.value for member in HardwareName], default="cpu")
        what.add_argument("--import", dest="file", type=Path, metavar="OUT.json")
        parser.add_argument("--corpus", type=Path, metavar="DIR", help="default: tests/hacks of this checkout")
        parser.add_argument("--deadline", type=float, default=1800.0, metavar="SECONDS")

    def handle(self, *args, **options) -> None:
        try:
            if options["file"]:
                report = record.read_report(options["file"])
            else:
                report = run_selftest(
                    HardwareName(options["hardware"]), deadline_s=options["deadline"], corpus=options["corpus"],
                    say=self.stdout.write,
                )
            row = record.store(report, "manage.py selftest")
        except (CannotRun, NotAReport) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"kept as self-test {row.pk} of {row.device}: {'passed' if row.passed else 'FAILED'}")
        if not row.passed:
            raise CommandError(f"{row.device} did not pass: {row.get_absolute_url()}", returncode=1)
