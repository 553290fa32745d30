"""Names that modules lost, where their text does not tell: they compute names, or are compiled."""

from __future__ import annotations

from collections.abc import Mapping

from gpuforge.compat.versions import meets

# By module: the packages that hold it, the versions without the names, and these. All were compared
# between releases, or are in the release notes named here.
LOST: dict[str, tuple[tuple[str, str, str], ...]] = {
    # dir() of NumPy 1.19.5, 1.23.5 and 1.24.4
    "numpy": (
        ("numpy", ">=1.23", "alen asscalar loads mafromtxt ndfromtxt sctypeNA typeNA"),
        ("numpy", ">=1.24", "MachAr complex float int object str typeDict unicode"),
        ("numpy", ">=1.24,<2", "bool long"),
        # hasattr() of NumPy 1.26.4 and 2.0.2
        (
            "numpy",
            ">=2",
            "DataSource Inf Infinity MAXDIMS NAN NINF NZERO NaN PINF PZERO RankWarning"
            " add_docstring add_newdoc add_newdoc_ufunc alltrue asfarray bool8 byte_bounds bytes0"
            " cast cfloat clongfloat compare_chararrays complex_ cumproduct deprecate"
            " deprecate_with_doc disp fastCopyAndTranspose find_common_type float_ format_parser"
            " get_array_wrap geterrobj infty int0 issctype issubclass_ issubsctype longcomplex"
            " longfloat lookfor mat math maximum_sctype msort nbytes obj2sctype object0 product"
            " recfromcsv recfromtxt round_ safe_eval sctype2char sctypes set_numeric_ops"
            " set_string_function seterrobj singlecomplex sometrue source str0 string_"
            " tracemalloc_domain uint0 unicode_ void0 who",
        ),
    ),
    # hasattr() of Pillow 9.5.0 and 10.0.0, and the release notes of the latter
    "PIL.Image": (("pillow", ">=10", "ANTIALIAS CUBIC LINEAR"),),
    # SciPy 1.3.0 release notes, Backwards incompatible changes
    "scipy.misc": (
        (
            "scipy",
            ">=1.3",
            "bytescale comb factorial factorial2 factorialk fromimage imfilter imread imresize"
            " imrotate imsave imshow logsumexp pade toimage",
        ),
    ),
    # hasattr() of TensorFlow 2.21.0; since 2.0 these are in tf.compat.v1, or have other names
    "tensorflow": (
        (
            "tensorflow tensorflow-cpu tensorflow-gpu tensorflow-macos tensorflow-intel",
            ">=2",
            "ConfigProto FixedLenFeature GPUOptions GraphKeys InteractiveSession Print RunOptions"
            " Session add_to_collection app contrib decode_raw flags get_collection"
            " get_default_graph get_default_session get_variable get_variable_scope gfile"
            " global_variables global_variables_initializer initialize_all_variables layers"
            " local_variables_initializer log logging parse_single_example placeholder"
            " placeholder_with_default random_normal random_shuffle random_uniform read_file"
            " reset_default_graph set_random_seed sparse_placeholder to_float to_int32 to_int64"
            " trainable_variables truncated_normal truncated_normal_initializer variable_scope",
        ),
    ),
    "tensorflow.train": (
        (
            "tensorflow tensorflow-cpu tensorflow-gpu tensorflow-macos tensorflow-intel",
            ">=2",
            "AdamOptimizer GradientDescentOptimizer MomentumOptimizer MonitoredTrainingSession"
            " RMSPropOptimizer Saver exponential_decay get_or_create_global_step import_meta_graph",
        ),
    ),
    # pytorch/pytorch#94709
    "torch": (("torch", ">=2", "_six"),),
}


def is_lost(module: str, name: str, installed: Mapping[str, str]) -> bool:
    """Return whether a module certainly lost a name, by the installed versions of packages."""
    return any(
        name in names.split() and meets(installed[package], versions)
        for packages, versions, names in LOST.get(module, ())
        for package in packages.split()
        if installed.get(package)
    )
