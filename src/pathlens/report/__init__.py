"""Room 9: many explanations → one self-contained page that can be filtered, sorted, and loaded again.

>>> from pathlens.report import Report
>>> Report.of(["a.json", "b.json"]).to_html("report.html")
>>> pl.load("report.html")     # the same results, as a list
"""

from pathlens.report.record import Report

__all__ = ["Report"]
