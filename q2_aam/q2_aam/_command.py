"""The command `aam` of another environment: it is found, compared and called."""

import collections
import os
import re
import shlex
import shutil
import subprocess
import sys

from q2_aam import __version__

VARIABLE = "AAM_COMMAND"
"""Environment variable that names the command, where it is not `aam` on the path."""
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables of QIIME 2's environment that would lead the command to packages of QIIME 2."""
PROGRESS = re.compile(r"\[ *\d+ of \d+\] ")
"""Beginning of a line that says how far a run is."""
LAST_LINES = 40
"""Lines of the command's output that a message of its failure may consist of."""


def find_command():
    """Return the words of the command `aam`.

    Returns
    -------
    list of str
        `aam`, or the program and the arguments that `AAM_COMMAND` names.

    Raises
    ------
    ValueError
        There is no such program.
    """
    given = os.environ.get(VARIABLE, "")
    words = shlex.split(given) or ["aam"]
    if shutil.which(words[0]) is None:
        where = VARIABLE if given else "PATH"
        raise ValueError(
            f"{where}: got no program {words[0]!r}; expected the command `aam` of AAM "
            f"{__version__}. Hint: install AAM in an environment of its own, and name its command, "
            f"for example: export {VARIABLE}=$HOME/aam/.venv/bin/aam"
        )
    return words


def check_version():
    """Check that the command is of the release of the plugin.

    Raises
    ------
    ValueError
        There is no such command, it does not work, or it is of another release.
    """
    words = find_command()
    shown = " ".join(words)
    done = subprocess.run(
        [*words, "--version"], env=_environment(), capture_output=True, text=True, check=False
    )
    found = re.search(r"^aam (\S+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ValueError(
            f"{shown}: got {said[-1] if said else 'nothing'!r} from `{shown} --version`; expected "
            f"`aam {__version__}`. Hint: repair the environment of AAM, or name another command "
            f"in {VARIABLE}"
        )
    if _release(found[1]) != _release(__version__):
        raise ValueError(
            f"{shown}: got AAM {found[1]}; expected AAM {'.'.join(_release(__version__))}, the "
            f"release of the plugin q2-aam {__version__}. Hint: install both from one checkout of "
            "AAM's repository: `make env`, and `pip install ./q2_aam` in the environment of QIIME 2"
        )


def call_aam(*arguments, folder):
    """Call the command `aam`; what it says goes to the terminal of the caller.

    Parameters
    ----------
    *arguments : str or path
        Its arguments.
    folder : path
        Folder that it works in.

    Raises
    ------
    ValueError
        It failed; the message is its own.
    """
    command = [*find_command(), *map(str, arguments)]
    said = collections.deque(maxlen=LAST_LINES)
    with subprocess.Popen(
        command,
        cwd=str(folder),
        env=_environment(),
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            said.append(line)
    if process.returncode != 0:
        lines = [line for line in said if not PROGRESS.match(line)]
        message = "".join(lines).strip()
        raise ValueError(message or f"`{' '.join(command)}` ended with code {process.returncode}")


def _environment():
    """Return the environment of the command: this one, without what is QIIME 2's own."""
    return {name: text for name, text in os.environ.items() if name not in HIDDEN}


def _release(version):
    """Return the first two numbers of a version, of which data and options depend."""
    return version.split(".")[:2]
