# The harness by itself, for machines that have nothing but a container engine: the simulator, the checkers in Python, the
# reports. It holds neither Java nor Spark. `make dist` builds it (stormproof/release/harness_image.py), upon the same base as the
# image of the nodes; `code` holds the wheel and what it needs, unpacked.
ARG BASE=python:3.12-slim

FROM ${BASE}
LABEL stormproof.stage=harness
COPY code /opt/stormproof
RUN useradd --uid 10002 --user-group --create-home --shell /usr/sbin/nologin harness \
    && install -d -o 10002 -g 10002 /work
ENV PYTHONPATH=/opt/stormproof PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10002:10002
WORKDIR /work
ENTRYPOINT ["python3", "-m", "stormproof"]
CMD ["--help"]
