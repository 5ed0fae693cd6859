"""What holds for every test: no result depends on how busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "etagere", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("etagere")
