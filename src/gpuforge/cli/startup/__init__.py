"""The folder that ``gpuforge run`` puts first on a program's import path; see `sitecustomize`."""
