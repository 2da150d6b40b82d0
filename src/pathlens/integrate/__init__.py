"""The one loop. Many texts' integrals, packed into batches under a memory budget, refined to the tolerance."""
