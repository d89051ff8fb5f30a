"""A class: finding what everyone handed in, grading it in parallel, keeping every verdict, showing what came of it."""
