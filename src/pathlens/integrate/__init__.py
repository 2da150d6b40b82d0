"""Room 6: the one loop. Many texts' integrals, packed into batches under a memory budget, refined to the tolerance."""

from pathlens.integrate.drive import Goal, Integral
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits

__all__ = ["Goal", "Integral", "Job", "Limits", "run"]
