"""Comparing measured times: two callables, two stored results, two profiles, the runs of a history.

`compare` measures two callables of this process in turns and returns a `Comparison`.
"""

from gpuforge.profiler.compare.comparison import Comparison as Comparison
from gpuforge.profiler.compare.interleaved import compare as compare
