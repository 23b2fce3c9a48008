#!/usr/bin/env bash
# Install the system programs where the user may; else say once what is missing.
# Argument: the Python interpreter that the environment will be made with.
set -euo pipefail
python=$1

missing=()
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
command -v ssu >/dev/null || missing+=(unifrac-tools)
command -v mafft >/dev/null || missing+=(mafft)
command -v fasttree >/dev/null || command -v FastTree >/dev/null || missing+=(fasttree)
[ ${#missing[@]} -eq 0 ] && exit 0

if ! bash "$(dirname "$0")/apt_install.sh" "${missing[@]}"; then
    echo "WARNING: not installed: ${missing[*]}. Install them as root (apt-get install ${missing[*]})" \
        "or with conda (unifrac, mafft, fasttree). Without them scikit-bio computes UniFrac, more" \
        "slowly, and a study needs a tree or a reference one (tree: v4, or greengenes)." >&2
fi
