"""Comparing measured times: of two callables, two stored results, two profiles, or past runs.

`compare` measures two callables in this process alternately and returns a `Comparison`.
"""

from gpuforge.profiler.compare.comparison import Comparison as Comparison
from gpuforge.profiler.compare.interleaved import compare as compare
