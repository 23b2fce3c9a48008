#!/usr/bin/env bash
# Build the Python package unifrac from its source on PyPI, for the engine of that name.
# Arguments: the Python interpreter of the environment, and the folder to install into in place of
# that environment, if any. No other package of the environment is touched.
# It ends well, with a message, where there is no Debian, no right to install, or no source to get.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
folder=${2:-}
# The last release that brings the source of its library: later ones want a newer one than Debian's.
version=0.20.3

skip() {
    echo "WARNING: the Python package unifrac is not installed: $1. ssu or scikit-bio take its" \
        "place, and the tests of this engine are skipped." >&2
    exit 0
}
importable() {
    PYTHONPATH="$folder${PYTHONPATH:+:$PYTHONPATH}" "$python" -c 'import unifrac' 2>/dev/null
}
if importable; then
    exit 0
fi

needed=(g++ make hdf5-helpers libhdf5-dev liblz4-dev libblas-dev liblapacke-dev)
if ! "$python" -c 'import pathlib, sysconfig
pathlib.Path(sysconfig.get_path("include"), "Python.h").stat()' 2>/dev/null; then
    needed+=(python3-dev)
fi
missing=()
for name in "${needed[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed ||
        missing+=("$name")
done
if [ ${#missing[@]} -gt 0 ] && ! bash workflow/apt_install.sh "${missing[@]}"; then
    skip "its build needs ${missing[*]} (apt-get install, as root)"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=$work/build/bin/python
# The tools of the build stay out of the environment. NumPy 2.2 compiles for all later ones.
"$python" -m venv "$work/build"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$build" -m pip install --quiet --only-binary :all: \
    'setuptools<80' wheel 'cython<3.1' 'numpy>=2,<2.3' || skip 'pip did not get the tools of its build'
"$build" -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation \
    --dest "$work" "unifrac==$version" || skip "pip did not get its source, unifrac==$version"
tar -xf "$work/unifrac-$version.tar.gz" -C "$work"
source=$work/unifrac-$version
# `pkg_resources`, which left setuptools with version 82, is asked for the version alone.
sed -i -e 's/^import pkg_resources$/from importlib.metadata import version/' \
    -e "s/^__version__ = .*/__version__ = version('unifrac')/" "$source/unifrac/__init__.py"
# The library alone is built: neither its tests nor its programs.
sed -i "s/'make', '\(test\|main\)'/'make', 'api'/" "$source/setup.py"

# The source asks for Intel's headers and for a libcblas, which Debian has under other names.
mkdir -p "$work/include" "$work/lib" "$work/prefix/lib" "$work/prefix/bin"
echo '#include <cblas.h>' >"$work/include/mkl_cblas.h"
echo '#include <lapacke.h>' >"$work/include/mkl_lapacke.h"
echo 'INPUT(-lblas -llapacke)' >"$work/lib/libcblas.so"
libraries=/usr/lib/$(g++ -print-multiarch)/hdf5/serial
(
    export HDF5_USE_SHLIB=yes
    # Where the build copies its library and programs to; without it, into /lib and /bin.
    export PREFIX=$work/prefix
    export CPLUS_INCLUDE_PATH=$work/include:/usr/include/hdf5/serial
    export LIBRARY_PATH=$work/lib:$work/prefix/lib:$libraries
    # Else the compiler is told to use all instructions of this very CPU.
    export PERFORMING_CONDA_BUILD=True
    # The library lies next to the module that loads it.
    export LDFLAGS="-Wl,-rpath,\$ORIGIN"
    MAKEFLAGS=-j$(nproc)
    export MAKEFLAGS
    "$build" -m pip wheel --no-deps --no-build-isolation --no-cache-dir \
        --wheel-dir "$work/wheels" "$source"
) >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    echo "The build of unifrac $version failed: its last lines are above." >&2
    exit 1
}
"$build" -m wheel unpack --dest "$work/unpacked" "$work"/wheels/unifrac-*.whl >/dev/null
cp "$work/prefix/lib/libssu.so" "$work/unpacked/unifrac-$version/unifrac/"
"$build" -m wheel pack --dest-dir "$work" "$work/unpacked/unifrac-$version" >/dev/null
"$python" -m pip install --quiet --no-deps ${folder:+--target "$folder"} "$work"/unifrac-*.whl
if ! importable; then
    echo "unifrac $version was built, but $python cannot import it." >&2
    exit 1
fi
echo "unifrac $version is installed${folder:+ in $folder}."
