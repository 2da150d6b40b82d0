"""pathlens methods: the table."""

from __future__ import annotations

from pathlens.cli import app


@app.command()
def methods() -> None:
    """List the methods: what each one is, its own options, and the paper."""
    from rich.console import Console
    from rich.table import Table

    from pathlens.methods import METHODS

    table = Table(box=None, pad_edge=False)
    for column in ("name", "method", "own options", "paper"):
        table.add_column(column, overflow="fold")
    for method in METHODS.values():
        table.add_row(method.name, method.title, ", ".join(method.options), method.paper)
    Console().print(table)
