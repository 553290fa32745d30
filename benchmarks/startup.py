"""From the start of a process to its first result, with gpuforge in front and without.

usage: startup.py [--quick] [--repeats N] [--add] [--out FILE]

Every run is a fresh process; what is compared runs in turns, and the time is from before the
process is started until its first result is there. *small*: 16 numbers. *large*: a product of two
matrices of 1,500 rows in float32, pinned to the library. *known*: a run whose cache folder an
earlier run has filled. *together*: three libraries made ready by one warm-up, against by calls that
name them, one after the other. *during*: how much later calls of NumPy, of some 5 ms each, end
while PyTorch is warmed up.
*memory*: a program that computes on one of the five libraries, against one that imports all five.
*lazy*: a program that imports three libraries and uses none. *end*: a whole process that ends while
PyTorch is warmed up. Takes some four minutes, --quick one. With --add, the runs in FILE count, too:
a busy machine can be asked for a minute at a time.

Targets: small <= 1.3 × plain NumPy; large <= 1.05 × the library alone; together no slower; calls
during a warm-up <= 20 ms later at the 95th percentile; memory of one <= 0.60 × that of all five;
MLX on the CPU <= 0.2 s from the start to the first result. The parts that others report for a GPU
(detection 50 ms, import 200, context 100, memory 50) stand beside ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fresh

RESULTS = Path(__file__).parent / "results" / "startup.json"
ROWS = 1500
SMALL, LARGE, TOGETHER, LATER_SECONDS, MEMORY, MLX_SECONDS = 1.3, 1.05, 1.0, 0.020, 0.60, 0.2
FIELD = {"detection": 0.050, "import": 0.200, "context": 0.100, "memory": 0.050}
MODULES = {"torch": "torch", "jax": "jax", "mlx": "mlx.core", "opencl": "pyopencl", "dpnp": "dpnp",
           "tensorflow": "tensorflow"}  # fmt: skip
END = """
import json, resource, time
found = dict(globals().get('found', {}), at=time.monotonic(),
             peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
print(json.dumps(found))
"""
SMALL_PLAIN = "import numpy as np\nx = np.arange(16.0)\ny = x * 2 + 1\n"
SMALL_OURS = """
import numpy as np, gpuforge as gf
@gf.offload
def affine(x):
    return x * 2 + 1
y = affine(np.arange(16.0))
"""
_INPUT = f"import numpy as np\na = np.full(({ROWS}, {ROWS}), 0.5, np.float32)\n"
ALONE = {
    "torch": "import torch\nt = torch.from_numpy(a)\ny = (t @ t).numpy()\n",
    "jax": "import jax, jax.numpy as jnp\nt = jnp.asarray(a)\n"
           "y = np.asarray(jax.jit(lambda t: t @ t)(t))\n",
    "mlx": "import mlx.core as mx\nt = mx.array(a)\ny = np.array(t @ t)\n",
    "tensorflow": "import tensorflow as tf\nt = tf.constant(a)\ny = (t @ t).numpy()\n",
}  # fmt: skip
OURS = "import gpuforge as gf\ny = gf.offload(lambda t: t @ t, backend={name!r})(a)\n"
MLX_SMALL = "import mlx.core as mx\ny = (mx.arange(16) * 2 + 1).tolist()\n"
PARTS = """
import time
t = [time.monotonic()]
import gpuforge as gf; t.append(time.monotonic())
gf.detect(); t.append(time.monotonic())
import {module}; t.append(time.monotonic())
from gpuforge.runtime.backends import load
device = load({name!r}).open_devices()[0]; t.append(time.monotonic())
import numpy as np
device.wait(device.put(np.zeros(1 << 20, np.float32))); t.append(time.monotonic())
names = ('import gpuforge', 'detection', 'import', 'context', 'memory')
found = dict(zip(names, (b - a for a, b in zip(t, t[1:]))))
"""
WARM = """
import gpuforge as gf
w = gf.warmup({names!r}, wait=True)
found = dict(states=[(n, c.state, c.held_seconds) for n, c in w.stats.items()])
"""
IN_TURN = """
import numpy as np, gpuforge as gf
for name in {names!r}:
    gf.offload(lambda x: x + 1, backend=name)(np.ones(3))
"""
DURING = """
import numpy as np, time, gpuforge as gf
x = np.ones(16_000_000, np.float32)
{begin}
times, ends = [], time.monotonic() + 4.0
while time.monotonic() < ends {goes_on}:
    s = time.monotonic(); np.multiply(x, 2, out=x); times.append(time.monotonic() - s)
found = dict(times=times)
"""
LAZY = "import torch\nimport scipy.linalg\nimport sympy\n"


class Broken(Exception):
    """A process failed."""


class Runs:
    """Runs programs in fresh processes and keeps what each found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[dict[str, Any]] = []

    def once(
        self, what: str, form: str, source: str, *, cache: str = "", launcher: tuple[str, ...] = ()
    ) -> None:
        """Run one program; its cache folder is new unless `cache` names one that is kept."""
        program = self.folder / "program.py"
        program.write_text(source + END)
        where = self.folder / cache if cache else tempfile.mkdtemp(dir=self.folder)
        begin = monotonic()
        done = subprocess.run(
            [sys.executable, *launcher, str(program)], cwd=self.folder, text=True, timeout=300,
            capture_output=True, env=fresh.environment(where, {}), check=False,
        )  # fmt: skip
        if done.returncode:
            raise Broken(f"{what}, {form}: {fresh.last_words(done.returncode, done.stderr)}")
        found = json.loads(done.stdout.splitlines()[-1])
        found["process_seconds"] = monotonic() - begin
        found["seconds"] = found.pop("at") - begin
        self.rows.append({"what": what, "form": form, **found})
        print(f"{what}, {form}: {found['seconds']:.2f} s", file=sys.stderr, flush=True)

    def of(self, what: str, form: str, key: str = "seconds") -> list[float]:
        """Return what the runs of one form found, in the order they ran."""
        return [row[key] for row in self.rows if (row["what"], row["form"]) == (what, form)]


def measure(runs: Runs, repeats: int, libraries: list[str]) -> None:
    """Run everything in turns, once per repeat."""
    ours = [name for name in libraries if name != "tensorflow"]
    in_turn = [name for name in ("torch", "jax", "mlx") if name in ours]
    for _ in range(repeats):
        runs.once("small", "plain", SMALL_PLAIN)
        runs.once("small", "gpuforge", SMALL_OURS)
        for name in libraries:
            if name not in ALONE:
                continue
            runs.once(f"large {name}", "alone", _INPUT + ALONE[name])
            if name != "tensorflow":
                source = _INPUT + OURS.format(name=name)
                runs.once(f"large {name}", "gpuforge", source)
                runs.once(f"large {name}", "gpuforge, known", source, cache=f"known {name}")
        if "mlx" in ours:
            runs.once("mlx", "alone", MLX_SMALL)
        runs.once("together", "in turn", IN_TURN.format(names=in_turn), cache="together")
        runs.once("together", "warm-up", WARM.format(names=in_turn), cache="together")
        for name in in_turn[:1]:
            warm = f"w = gf.warmup([{name!r}])"
            quiet = DURING.format(begin="", goes_on="")
            runs.once("during", "quiet", quiet, cache="together")
            runs.once("during", "warm-up", DURING.format(begin=warm, goes_on="and not w.done"),
                      cache="together")  # fmt: skip
            runs.once("end", "no warm-up", "import gpuforge as gf\ngf.warmup\n", cache="together")
            ends = f"import gpuforge as gf\ngf.warmup([{name!r}])\nimport time; time.sleep(0.1)\n"
            runs.once("end", "warm-up", ends, cache="together")
        if len(ours) == 5:
            every = "".join(f"import {MODULES[name]}\n" for name in ours)
            runs.once("memory", "all imported", _INPUT + every)
            for name in ("torch", "jax"):
                runs.once("memory", f"uses {name}", _INPUT + OURS.format(name=name))
        for name in in_turn:
            runs.once(f"parts {name}", "ours", PARTS.format(module=MODULES[name], name=name))
        if all(map(find_spec, ("torch", "scipy", "sympy"))):
            start = ("-m", "gpuforge", "run", "--quiet")
            runs.once("lazy", "python", LAZY)
            runs.once("lazy", "run", LAZY, cache="lazy", launcher=start)
            runs.once("lazy", "run --lazy-imports", LAZY, cache="lazy",
                      launcher=(*start, "--lazy-imports"))  # fmt: skip


def report(runs: Runs, libraries: list[str]) -> list[str]:
    """Return the comparisons with their targets, in lines."""
    lines = [compared(runs, "small", "plain", "gpuforge", SMALL)]
    for name in libraries:
        if runs.of(f"large {name}", "gpuforge"):
            lines += [
                compared(runs, f"large {name}", "alone", form, LARGE)
                for form in ("gpuforge", "gpuforge, known")
            ]
        elif alone := runs.of(f"large {name}", "alone"):
            lines.append(f"large {name}: alone {fresh.shown(fresh.spread(alone))} s (no backend)")
    if alone := runs.of("mlx", "alone"):
        held = fresh.verdict(fresh.spread(alone)["median"] <= MLX_SECONDS)
        lines.append(f"mlx, small: {fresh.shown(fresh.spread(alone))} s; <= {MLX_SECONDS} s {held}")
    lines.append(compared(runs, "together", "in turn", "warm-up", TOGETHER))
    lines += later(runs)
    if runs.of("end", "warm-up"):
        lines.append(compared(runs, "end", "no warm-up", "warm-up", key="process_seconds"))
    for name in ("torch", "jax"):
        if runs.of("memory", f"uses {name}"):
            lines.append(compared(runs, "memory", "all imported", f"uses {name}", MEMORY, "peak"))
    for name in libraries:
        parts = [row for row in runs.rows if row["what"] == f"parts {name}"]
        if parts:
            middle = {n: fresh.spread([row[n] for row in parts])["median"] for n in FIELD}
            text = ", ".join(f"{n} {middle[n]:.3f} s (field: {FIELD[n]:.3f})" for n in FIELD)
            lines.append(f"parts {name}: {text}")
    if runs.of("lazy", "run"):
        lines += [compared(runs, "lazy", base, "run --lazy-imports") for base in ("python", "run")]
    return lines


def compared(
    runs: Runs, what: str, base: str, form: str, target: float | None = None, key: str = "seconds"
) -> str:
    """Return how one form compares with another: medians, spreads, ratio, verdict."""
    found, before = (fresh.spread(runs.of(what, one, key)) for one in (form, base))
    scale, unit = (1e-6, "MB") if key == "peak" else (1, "s")
    shown = [fresh.shown({n: v * scale for n, v in one.items()}) for one in (found, before)]
    ratio = found["median"] / before["median"]
    text = f"{what}: {form} {shown[0]} {unit}, {base} {shown[1]} {unit}: {ratio:.2f} ×"
    return text if target is None else f"{text}; <= {target} × {fresh.verdict(ratio <= target)}"


def later(runs: Runs) -> list[str]:
    """Return how much later calls end that are made during a warm-up."""
    lines = []
    for form in ("quiet", "warm-up"):
        times = sorted(t for row in runs.rows if (row["what"], row["form"]) == ("during", form)
                       for t in row["times"])  # fmt: skip
        if not times:
            return []
        at = [times[int(share * (len(times) - 1))] for share in (0.5, 0.95, 1.0)]
        lines.append((form, at, len(times)))
    (_, quiet, _), (_, warm, _) = lines
    by = warm[1] - quiet[1]
    texts = [
        f"during, {form}: median {at[0] * 1e3:.1f} ms, 95 % {at[1] * 1e3:.1f}, longest"
        f" {at[2] * 1e3:.0f}, {n} calls"
        for form, at, n in lines
    ]
    verdict = fresh.verdict(by <= LATER_SECONDS)
    return [*texts, f"during: {by * 1e3:.1f} ms later at the 95th percentile; <= 20 ms {verdict}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    libraries = [n for n, module in MODULES.items() if find_spec(module.partition(".")[0])]
    if not libraries:
        print("no array library besides NumPy is installed", file=sys.stderr)
        return 3
    about = fresh.machine() | {"quick": arguments.quick, "found": libraries}
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        if arguments.add and arguments.out.exists():
            runs.rows = json.loads(arguments.out.read_text())["runs"]
        measure(runs, arguments.repeats or (2 if arguments.quick else 7), libraries)
    lines = report(runs, libraries)
    about["load_after"] = os.getloadavg()[0]
    head = json.dumps({"machine": about, "report": lines}, indent=1)
    rows = ",\n".join(map(json.dumps, thinned(runs.rows)))
    arguments.out.write_text(f'{head[:-2]},\n "runs": [\n{rows}\n]}}\n')
    print("\n".join(lines))
    return 0


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with 201 of their times of single calls, from the shortest to the longest."""
    made = []
    for row in rows:
        times = sorted(row.get("times", ()))
        kept = [round(times[n * (len(times) - 1) // 200], 6) for n in range(201)] if times else None
        made.append({**row, "times": kept} if times else row)
    return made


if __name__ == "__main__":
    sys.exit(main())
