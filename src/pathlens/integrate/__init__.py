"""Room 5: the one loop."""

from pathlens.integrate.drive import Goal, Integral
from pathlens.integrate.loop import Job, Limits, run

__all__ = ["Goal", "Integral", "Job", "Limits", "run"]
