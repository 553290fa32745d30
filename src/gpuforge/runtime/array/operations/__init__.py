"""The table of operations, one module for each class of them; loaded all together."""

from importlib import import_module

from gpuforge import registry

for _name in registry.names(__name__):
    import_module(f"{__name__}.{_name}")
