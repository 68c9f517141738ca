"""The portal's settings with short leases, for tests that wait for one to expire, and many tries on a busy machine."""

from portal.settings import *  # noqa: F403

EVALUATION_LEASE_S = 3
EVALUATION_RETRY_PAUSE_S = 0
EVALUATION_MAX_CLAIMS = 10
