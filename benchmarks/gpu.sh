#!/usr/bin/env bash
# Runs every GPU test and benchmark of gpuforge; raw results go to the folder OUT.
# usage: [NPBENCH=CLONE] gpu.sh [OUT] [STEP...]     (default: benchmarks/results/gpu, every step)
# With pytest-xdist, the tests use every core.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-benchmarks/results/gpu}
python=${PYTHON:-python3}
mkdir -p "$out"
shift
wanted=" $* "
failed=0
known=" npbench "
step() { # step NAME COMMAND...: run it, keep its output, go on when it fails
    local name=$1
    shift
    known+="$name "
    [[ $wanted == "  " || $wanted == *" $name "* ]] || return
    echo "== $name"
    "$@" 2>&1 | tee "$out/$name.txt" || { failed=1; echo "== $name failed"; }
}
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD/src${PYTHONPATH:+:$PYTHONPATH} GPUFORGE_CACHE_FOLDER=$(mktemp -d)
# Tests have a home of their own each; what was compiled for one serves the next.
export CUPY_CACHE_DIR=${CUPY_CACHE_DIR:-$GPUFORGE_CACHE_FOLDER/cupy} GPUFORGE_TEST_DEVICE=cuda
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$GPUFORGE_CACHE_FOLDER/cuda}
export PYTORCH_KERNEL_CACHE_PATH=${PYTORCH_KERNEL_CACHE_PATH:-$GPUFORGE_CACHE_FOLDER/torch}
mkdir -p "$PYTORCH_KERNEL_CACHE_PATH" # PyTorch warns if it is not there, and a warning fails a test
# pytest-benchmark warns beside pytest-xdist, which ends the run.
parallel=()
"$python" -c "import xdist" 2>/dev/null && parallel=(-n "$(nproc)" --dist worksteal -p no:benchmark)
step devices "$python" -m gpuforge detect --why
step backends "$python" -m gpuforge calibrate --list
step tests "$python" -m pytest -m gpu -q -rP tests
step meaning "$python" -m pytest -q "${parallel[@]}" tests/contract tests/meaning tests/runtime
step large_arrays "$python" benchmarks/large_arrays.py --out "$out/large_arrays.json"
step transfer "$python" benchmarks/transfer.py --out "$out/transfer.json"
step calibration "$python" -m gpuforge calibrate
step placement "$python" benchmarks/placement.py --samples "$out/placement-samples.json.gz" \
    --out "$out/placement.json" --backends torch,jax,cupy --functions affine,wave,total,square_product,gram,ordered,spectrum
step contention "$python" benchmarks/contention.py --out "$out/contention.json"
step overhead "$python" benchmarks/overhead.py --out "$out/overhead.json"
step everyday "$python" benchmarks/everyday.py --output "$out/everyday.json"
step stream "$python" benchmarks/stream.py --repeats 1 --out "$out/stream.json.gz"
step map "$python" benchmarks/map.py --libraries numpy,torch --out "$out/map.json"
step nothing_to_gain "$python" benchmarks/nothing_to_gain.py --repeats 3 --out "$out/nothing_to_gain.json"
step lattice "$python" benchmarks/lattice.py --repeats 2 --out "$out/lattice.json"
step spans "$python" benchmarks/spans.py --out "$out/spans.json"
step profiled "$python" benchmarks/profiled.py --out "$out/profiled.json"
step startup "$python" benchmarks/startup.py --out "$out/startup.json"
step monitor "$python" benchmarks/monitor.py --out "$out/monitor.json"
step top "$python" -m gpuforge top --json
step profile "$python" -m gpuforge run --save "$out/profile.gfp" examples/mixed_sizes.py
step report "$python" -m gpuforge report "$out/profile.gfp"
if [ -n "${NPBENCH:-}" ]; then
    step npbench "$python" benchmarks/npbench.py --npbench "$NPBENCH" --quick --presets M --out "$out/npbench.json"
else
    echo "== npbench left out: NPBENCH names no clone of NPBench"
fi
rm -rf "$GPUFORGE_CACHE_FOLDER"
for name in $wanted; do
    [[ $known == *" $name "* ]] || { failed=2; echo "no step is named '$name'; there are:$known"; }
done
exit $failed
