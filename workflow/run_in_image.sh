#!/usr/bin/env bash
# What an image runs: the workflow where the first argument is an option, else a command.
set -euo pipefail

# Caches are kept in the home, and an image is read-only. Snakemake asks for the user's name, which
# the number of `docker run --user` does not have.
if [ ! -w "${HOME:-/}" ]; then
    HOME=$(mktemp -d)
fi
export HOME USER="${USER:-aam}"

if [[ ${1:--} == -* ]]; then
    set -- snakemake --snakefile /opt/aam/Snakefile "$@"
fi
exec "$@"
