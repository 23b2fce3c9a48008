#!/usr/bin/env bash
# Fill an image of Debian with Python, as root: the steps that Dockerfile and aam.def share.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_NO_CACHE_DIR=1

apt-get update -qq
apt-get install -y -qq --no-install-recommends make
make env
# `make env` only warns where they are missing.
type ssu mafft fasttree
# Who runs the image need not be who built it.
chmod -R a+rX .
rm -rf /var/lib/apt/lists/*
