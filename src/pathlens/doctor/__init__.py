"""The laws, run on the user's own model: what holds, what does not, and what to do.

>>> from pathlens.doctor import examine
>>> examine("sentiment").show()
"""

from pathlens.doctor.examine import examine
from pathlens.doctor.record import Check, Diagnosis

__all__ = ["Check", "Diagnosis", "examine"]
