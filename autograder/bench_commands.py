"""`ol bench`: what a rule about cost costs here. Local, with ratios within one run, and never part of a verdict.

It knows which benchmarks there are; each has a file of its own, and so have the instructor's.
"""

from __future__ import annotations

import typer

from autograder import gpu_command, order_command, route_command, serve_command, trace_command, ttft_command

bench = typer.Typer(
    help="Measure what things cost here: ratios within one run, and never part of a verdict.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
bench.command("L10.4")(ttft_command.shared_prefix_ttft)
bench.command("trace")(trace_command.trace)
bench.command("serve")(serve_command.serve)
bench.command("order")(order_command.order)
bench.command("route")(route_command.route)
bench.command("gpu")(gpu_command.gpu)
