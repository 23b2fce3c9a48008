#!/usr/bin/env bash
# Install packages of Debian or Ubuntu, as root or with a sudo that asks for no password.
# Arguments: their names. It fails where that may not be done.
set -euo pipefail

as_root=(env)
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n env)
fi
command -v apt-get >/dev/null
"${as_root[@]}" true 2>/dev/null
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
