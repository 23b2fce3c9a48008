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

as_root=(env)
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n env)
fi
install() {
    command -v apt-get >/dev/null || return 1
    "${as_root[@]}" true 2>/dev/null || return 1
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}"
}
if ! install; then
    echo "WARNING: not installed: ${missing[*]}. Install them as root (apt-get install ${missing[*]})" \
        "or with conda (unifrac, mafft, fasttree). Without them scikit-bio computes UniFrac, more" \
        "slowly, and a tree has to be given." >&2
fi
