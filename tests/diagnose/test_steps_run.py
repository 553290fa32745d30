"""Commands inside the steps of known errors: what can be run here is run, the rest has a reason.

What a command says depends on the machine; here it has to be one that the program takes: none ends
in a wrong option, an unknown command or a syntax error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuforge.diagnose.known_error import causes, known_error

STEPS = sorted({step for cause in causes() for step in known_error(cause).steps})
# Commands that only look. "{pip}" stands for the installer that the log shows, here pip.
RUN = [
    "gpuforge doctor openmp_runtimes",
    "gpuforge doctor gpu_access",
    "gpuforge doctor shadowing_modules",
    "gpuforge doctor python_environment",
    "{pip} list | grep -i torch",
    "{pip} list | grep -i -E 'torch|triton'",
    "{pip} index versions PACKAGE",
    "python -m pip debug --verbose",
    "python -m pip cache purge",
    "python3 -m venv .venv",
    "ldd --version",
    "df -h . /tmp ~",
    "df -i",
    "df -h /dev/shm",
    "free -h",
    "ulimit -v",
    "ulimit -n",
    "cat /sys/fs/cgroup/memory.max",
    "cat /proc/driver/nvidia/version",
    "ls -l /dev/kfd /dev/dri",
    "ls /etc/OpenCL/vendors",
    "ls -l /dev/dxg /usr/lib/wsl/lib/libcuda.so.1",
    "ls /usr/share/vulkan/icd.d /etc/vulkan/icd.d",
    "ls /lib/firmware/nvidia/$(cat /sys/module/nvidia/version)",
    "lscpu | grep -i -o -w -E 'sse4_2|avx|avx2|avx512f|fma' | sort -u",
    "lsmod | grep nvidia",
    "ss -ltnp | grep :29500",
    "strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX",
    "LD_DEBUG=libs python -c 'import ctypes; ctypes.CDLL(\"libcuda.so.1\")' 2>&1 | grep libcuda",
    "LD_DEBUG=libs python -c 'import torch' 2>&1 | grep -i 'calling init.*cu'",
    "env -u LD_LIBRARY_PATH python -c 'import torch'",
    "python -c 'import jax; print(jax.devices())'",
    "python -c 'import torch; print(torch.xpu.is_available(), torch.xpu.device_count())'",
    "python -c 'import torch; print(torch.version.cuda)'",
    "python -c 'import torch; print(torch.version.cuda, torch.version.hip)'",
    "python -c 'import torch; print(torch.cuda.get_arch_list())'",
    "python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.version.hip)'",
    'python -c "import torch; print(torch.cuda.is_available())"',
    'python -c \'import os, torch; print(os.environ.get("CUDA_VISIBLE_DEVICES"), '
    "torch.cuda.device_count())'",
]
# What the machine may lack: the answer is then that a file or a line is not there, and no more.
MAY_BE_EMPTY = re.compile(r"^(ls|cat|lsmod|ss|LD_DEBUG|\{pip\})|grep")
# Commands of these programs are not run, each for the same reason.
NOT_RUN = {
    "sudo": "changes the system, as root",
    "{pip} install|{pip} uninstall|uv|conda|pixi": "changes an environment",
    "nvidia-smi|nvidia-ctk|nvcc|nvidia-modprobe|dcgmi|compute-sanitizer|py-spy|trtexec|numba|"
    "rocminfo|rocm-smi|xpu-smi|sycl-ls|clinfo|vulkaninfo|lspci|dmesg|journalctl|systemctl|"
    "kubectl|docker|brew|torchrun|cmake|gcc|g\\+\\+|netstat|wsl|ulimit|source|"
    "bitsandbytes": "needs a GPU, its tools or another system",
}
# A library that is not installed where all tests run, and what needs a GPU to answer at all.
NEEDS_MORE = {
    "torch.cuda.get_device_capability()": "needs a GPU",
    "import tensorflow": "TensorFlow is not installed here",
    "import onnxruntime": "ONNX Runtime is not installed here",
    "import cupy": "CuPy is not installed here",
    "python -m bitsandbytes": "bitsandbytes is not installed here",
    "import NAME": "the module is the reader's",
    "python SCRIPT": "the script is the reader's",
    "python -m pip install": "changes an environment",
    "bin/python -m pip install": "changes an environment",
    "python3.12 -m venv": "needs that Python",
    "LD_PRELOAD=": "the program is the reader's",
    "ulimit -n 65536": "the hard limit of the machine may be lower",
}
_COMMAND = re.compile(
    r"gpuforge|python3?(?:\.12)?(?= -)|\{pip\} (?:list|index|check|show|debug)|ldd --|df -"
    r"|free -|ulimit -|cat /|ls -l|ls /|lscpu|lsmod|\bss -|strings \$"
)


def test_every_command_that_only_looks_is_run_or_has_its_reason() -> None:
    assert len(RUN) > 30
    for step in STEPS:
        left = step
        for command in sorted(RUN, key=len, reverse=True):
            left = left.replace(command, "")
        for found in _COMMAND.finditer(left):
            assert any(name in left for name in NEEDS_MORE), (found[0], step)


@pytest.mark.parametrize("command", RUN)
def test_a_command_of_a_step_runs(command: str, tmp_path: Path) -> None:
    assert any(command in step for step in STEPS), "no step names it any more"
    for module in re.findall(r"import (?:os, )?(\w+)", command):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    programs = re.findall(r"(?:^|\| |\$\()([a-z]+)\b", command)
    for program in programs:
        if program not in ("python", "gpuforge", "ulimit") and not shutil.which(program):
            pytest.skip(f"{program} is not on this system")
    (tmp_path / "home").mkdir()
    done = run(command, tmp_path)
    assert done.returncode != 127, done.stderr  # no such command
    wrong = re.search(r"(invalid|unrecognized|unknown) option|usage:|SyntaxError|Traceback",
                      done.stderr)  # fmt: skip
    if "libcuda" not in command:
        assert not wrong, done.stderr
    if not MAY_BE_EMPTY.search(command):
        assert done.returncode == 0, done.stderr
        assert done.stdout or "venv" in command or "65536" in command or "import torch'" in command


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as a shell does whose Python is this one, with a home of its own."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in ("python", "python3"):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        script.chmod(0o755)
    gpuforge = bin_folder / "gpuforge"
    gpuforge.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpuforge "$@"\n')
    gpuforge.chmod(0o755)
    command = command.replace("{pip}", "python -m pip").replace("PACKAGE", "numpy")
    environ = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}",
               "HOME": str(folder / "home"), "PIP_CACHE_DIR": str(folder / "pip"),
               "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0",
               "PYTHONPATH": str(Path(__file__).parents[2] / "src")}  # fmt: skip
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environ, text=True,
                          capture_output=True, timeout=180)  # fmt: skip


def test_reasons_are_of_commands_that_steps_name() -> None:
    text = "\n".join(STEPS)
    for name in NEEDS_MORE:
        assert name in text, name
    for programs in NOT_RUN:
        for program in programs.split("|"):
            assert program.replace("\\", "") in text, program
