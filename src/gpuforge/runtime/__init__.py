"""The way of a call: signature, placement, transfer, run, restored result.

Loading this package is the moment before NumPy loads, the last one at which idle threads can be
asked not to spin (see `contention`).
"""

from gpuforge.runtime.contention import prepare_environment

prepare_environment()
