"""django-q2's database broker, except that the portal's own cluster also takes the messages for ``cpu``.

So housekeeping, which writes to the repositories, only ever reaches the portal's host, while other hosts may join for
``cpu`` as for any other hardware. Where the portal's host has a CUDA compiler its cluster compiles too, what no host
can measure. Not for what the messages mean: see queue.py.
"""

from __future__ import annotations

from time import sleep

from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf

from agentcore.vocabulary import HardwareName
from portal.evaluations.compiling import COMPILING, can_compile


class Broker(ORM):
    """A broker whose ``list_key`` is the cluster it serves."""

    def dequeue(self) -> list[tuple[int, str]] | None:
        """Lock and return the next messages, housekeeping first; after a short sleep None where there are none."""
        for key in self._keys():
            waiting = self.get_connection().filter(key=key, lock__lt=timezone.now()).order_by("pk")[: Conf.BULK]
            # A message another cluster locked first is left to it.
            taken = [
                (message.pk, message.payload)
                for message in waiting
                if self.get_connection().filter(pk=message.pk, lock=message.lock).update(lock=self.timeout(message))
            ]
            if taken:
                return taken
        sleep(Conf.POLL)
        return None

    def _keys(self) -> tuple[str, ...]:
        if self.list_key != Conf.PREFIX:
            return (self.list_key,)
        return (self.list_key, HardwareName.CPU.value, *((COMPILING,) if can_compile() else ()))
