"""What is taken at a point.

An integrand is a function of one `Batch` that gives one value per row and unit: (B, U, …). It sees plain
tensors and a plain `score`; which derivative it needs, and with which kernels, is its own business.
"""

from pathlens.integrand.batch import Batch, Integrand
from pathlens.integrand.directional import Directional, Jacobian, Outputs
from pathlens.integrand.gradient import Coordinates, Gradient, Value
from pathlens.integrand.hessian import Hessian, RowSums

__all__ = [
    "Batch", "Coordinates", "Directional", "Gradient", "Hessian", "Integrand", "Jacobian", "Outputs", "RowSums", "Value",
]  # fmt: skip
