"""Charts of what a cache does to serving. Each comes as a PNG file and as text for a terminal.

A file for each kind of chart, and one for the style that they share. Titles say what was found. What was
measured, and how, is not known here.
"""

from course.charts.hit_rate import hit_rate_chart, hit_rate_finding, hit_rate_text
from course.charts.style import Spread, milliseconds
from course.charts.ttft import BUDGET, ttft_chart, ttft_finding, ttft_text

__all__ = [
    "BUDGET",
    "Spread",
    "hit_rate_chart",
    "hit_rate_finding",
    "hit_rate_text",
    "milliseconds",
    "ttft_chart",
    "ttft_finding",
    "ttft_text",
]
