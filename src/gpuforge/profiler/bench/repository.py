"""The git repository that contains the benchmarks, and checking out another version of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.facts import Absent, Failed
from gpuforge.probe import LiveProbe

_GIT_SECONDS = 120.0


def git(root: Path, *arguments: str) -> str:
    """Return the output of a git command.

    Raises
    ------
    WorkloadError
        If git is not installed or fails.
    """
    output = LiveProbe().run(["git", "-C", str(root), *arguments], timeout=_GIT_SECONDS)
    if isinstance(output, Absent | Failed):
        raise WorkloadError(f"git cannot be run: {output.reason}", hint="install git")
    if output.status:
        text = output.stderr.strip() or f"exit status {output.status}"
        raise WorkloadError(
            f"'git {arguments[0]}' failed in {str(root)!r}: {text}",
            hint="--against needs a git repository" if "not a git repository" in text else "",
        )
    return output.stdout.strip()


@contextmanager
def checked_out(root: Path, ref: str) -> Iterator[tuple[str, Path]]:
    """Check out the tree of `ref` into a temporary folder, which is removed afterwards.

    The tree has at least as many folders above it as `root`: some code looks for files in each of
    them, which takes time.

    Yields
    ------
    The commit and the folder.

    Raises
    ------
    UnknownName
        If the repository has no such ref.
    """
    import tempfile

    try:
        commit = git(
            root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
    except WorkloadError:
        tags = git(root, "tag", "--list").splitlines()
        hint = "" if tags else "name a commit, tag or branch of this repository"
        raise UnknownName.among("git ref", ref, tags, hint=hint) from None
    with tempfile.TemporaryDirectory(prefix="gpuforge-bench-") as folder:
        above = Path(folder).resolve()
        tree = above.joinpath(*["base"] * max(1, len(root.parts) - len(above.parts)))
        git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield commit, tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))
