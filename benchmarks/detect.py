"""How long does it take to know the machine, and against what?

Side by side in one run, in pairs, so that a busy machine disturbs both alike:

* in process: cold (no cache) and cached, with the time of each vendor
* as a process: ``gpuforge detect --json`` cached, ``python -c "import numpy"``
* a process such as ``nvidia-smi``: the real one where there is one, else one that prints a
  recording of its size
* asking PyTorch (``torch.cuda.is_available()``), where it is installed

On a machine with a GPU, NVML's own time is shown apart. Writes
``benchmarks/results/detect.json`` (all samples, in seconds) and prints the medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RESULT = Path(__file__).resolve().parent / "results" / "detect.json"


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def process(*argv: str) -> Callable[[], object]:
    """Return a call that runs a program to its end."""
    # As installed: without this the package would be compiled anew in every process.
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, env=environ, check=False)


def management_tool(folder: Path) -> tuple[str, list[str]]:
    """Return the management tool to start, and its command."""
    real = shutil.which("nvidia-smi")
    if real:
        return "nvidia-smi", [real, "-q", "-x"]
    text = folder / "recording.xml"
    text.write_text("<nvidia_smi_log><gpu/></nvidia_smi_log>\n" * 400)
    return "a process that prints 18 kB (cat)", ["cat", str(text)]


def nvml_seconds() -> float | None:
    """Return what NVML alone takes from load to shutdown, or None where there is none."""
    from gpuforge.detect import nvml
    from gpuforge.facts import known
    from gpuforge.probe import LiveProbe

    started = time.perf_counter()
    library = known(LiveProbe().load_library("libnvidia-ml.so.1"))
    if library is None:
        return None
    nvml.read(library)
    return time.perf_counter() - started


def first_time_in_a_process() -> float:
    """Return the seconds of the first cold detection in a new process, imports counted."""
    code = (
        "import time; a = time.perf_counter(); import gpuforge; gpuforge.detect(refresh=True);"
        "print(time.perf_counter() - a)"
    )
    return float(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    )


def measure(repeats: int) -> dict[str, list[float]]:
    """Return the samples of every question, taken in turns."""
    import gpuforge

    folder = Path(tempfile.mkdtemp(prefix="gpuforge-bench-"))
    name, tool = management_tool(folder)
    command = [str(Path(sys.executable).with_name("gpuforge")), "detect", "--json"]
    questions: dict[str, Callable[[], object]] = {
        "in process, cold": lambda: gpuforge.detect(refresh=True),
        "in process, cached": gpuforge.detect,
        "gpuforge detect --json, cached": process(*command),
        'python -c "import numpy"': process(sys.executable, "-c", "import numpy"),
        "python -c pass": process(sys.executable, "-c", "pass"),
        name: process(*tool),
    }
    if importlib.util.find_spec("torch"):
        ask = "import torch; torch.cuda.is_available()"
        questions[f'python -c "{ask}"'] = process(sys.executable, "-c", ask)
    samples: dict[str, list[float]] = {question: [] for question in questions}
    samples["first cold detection in a new process, imports counted"] = []
    gpuforge.detect()
    for _ in range(repeats):
        for question, action in questions.items():
            if question == "in process, cached":
                gpuforge.detect()
            samples[question].append(timed(action))
        samples["first cold detection in a new process, imports counted"].append(
            first_time_in_a_process()
        )
        if (own := nvml_seconds()) is not None:
            samples.setdefault("NVML alone", []).append(own)
    shutil.rmtree(folder)
    return samples


def main() -> None:
    """Measure, keep the samples, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    import gpuforge

    os.chdir(tempfile.gettempdir())  # a folder without settings files, as most are
    machine = gpuforge.detect(refresh=True)
    samples = measure(arguments.repeats)
    pairs = list(
        zip(
            samples["gpuforge detect --json, cached"],
            samples['python -c "import numpy"'],
            strict=True,
        )
    )
    result = {
        "question": "what does it cost to know the machine",
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": getattr(machine.host, "cpu_model", None),
        "cores": os.cpu_count(),
        "gpus": len(machine.devices),
        "load_average": os.getloadavg(),
        "vendor_seconds": machine.timings,
        "pairs_faster_than_numpy": sum(mine < theirs for mine, theirs in pairs),
        "pairs": len(pairs),
        "median_seconds": {name: statistics.median(values) for name, values in samples.items()},
        "samples_seconds": samples,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for name, values in samples.items():
        low, high = min(values), max(values)
        print(
            f"{1e3 * statistics.median(values):9.2f} ms ({1e3 * low:.2f}..{1e3 * high:.2f})  {name}"
        )
    print(
        f"faster than importing NumPy in {result['pairs_faster_than_numpy']} of {len(pairs)} pairs"
    )


if __name__ == "__main__":
    main()
