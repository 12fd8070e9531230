# frontier in a container: nodes, commands and the dashboard. It has the wheel,
# and no source.
#
#   docker build --tag frontier-crawl:0.1.0 .
#   docker run --rm --init frontier-crawl:0.1.0 frontier demo
#
# No container engine is at hand where our tests run: a linter reads this file, and the
# wheel is tried alone (`make release-check`). The image is taken on trust; its tag is used
# by others.
# Python 3.11 is the one for which .ci/locks has versions.

ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE scrapy.cfg ./
COPY frontier ./frontier
COPY settings ./settings
COPY spiders ./spiders
COPY share ./share
RUN python -m pip wheel --no-deps --wheel-dir /wheels .
COPY .ci/locks/dev.txt /wheels/locked.txt
ARG EXTRAS=dashboard,feeds,metrics,upload
RUN python -m venv /opt/frontier \
 && /opt/frontier/bin/pip install --constraint /wheels/locked.txt \
      "$(echo /wheels/*.whl)[${EXTRAS}]" \
 && ln -s /opt/frontier/lib/python*/site-packages/frontier/project /opt/frontier/project

FROM python:${PYTHON}-slim-bookworm
COPY --from=build /opt/frontier /opt/frontier
# A number, so that Kubernetes sees that it is not root. What it writes is in /data.
RUN groupadd --gid 10001 frontier \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data frontier \
 && install --directory --owner=10001 --group=10001 \
      /data /data/warcs /data/journals /targets
ENV PATH=/opt/frontier/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/data
WORKDIR /data
VOLUME ["/data/warcs", "/data/journals"]
USER 10001:10001
# Scrapy takes it as the wish to finish what is in flight, and to put back the rest.
STOPSIGNAL SIGTERM
# No HEALTHCHECK: what is healthy differs between a node, a dashboard and a command.
# docker-compose.yml and deploy/kubernetes have one for each.
CMD ["frontier", "--help"]
