"""Room 4: what is taken at a point.

An integrand is a function of one `Batch` that gives one value per row and unit: (B, U, …). It sees plain
tensors and a plain `score`; which derivative it needs, and with which kernels, is its own business.
"""

from pathlens.integrand.batch import Batch, Integrand
from pathlens.integrand.difference import Value
from pathlens.integrand.directional import Directional, Jacobian
from pathlens.integrand.gradient import Coordinates, Gradient
from pathlens.integrand.hessian import Hessian, RowSums
from pathlens.integrand.outputs import Outputs

__all__ = [
    "Batch",
    "Coordinates",
    "Directional",
    "Gradient",
    "Hessian",
    "Integrand",
    "Jacobian",
    "Outputs",
    "RowSums",
    "Value",
]
