"""The folder that ``gpuforge run`` puts first on a program's search path; see `sitecustomize`."""
