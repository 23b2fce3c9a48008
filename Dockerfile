# How to build and run it: docs/how-to/install.md, "Containers".
FROM python:3.11.14-slim-bookworm

# Where pip finds PyTorch for the CPU; https://pypi.org/simple: PyPI's own build, for GPUs.
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

# What goes into the image is listed in .dockerignore.
COPY . /opt/aam
RUN bash /opt/aam/workflow/install_image.sh

ENV PATH=/opt/aam/.venv/bin:$PATH
# Whoever runs the image need have no home: caches of Snakemake and Matplotlib.
ENV XDG_CACHE_HOME=/tmp/aam-cache MPLCONFIGDIR=/tmp/aam-cache/matplotlib
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["bash", "/opt/aam/workflow/run_in_image.sh"]
