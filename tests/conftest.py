"""Property tests try the same examples in every CI run, so that a change is judged by itself; elsewhere new ones."""

import os

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; it says nothing about the code.
_slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("lowtide", deadline=None, suppress_health_check=_slow)
settings.register_profile("ci", deadline=None, suppress_health_check=_slow, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "lowtide")
