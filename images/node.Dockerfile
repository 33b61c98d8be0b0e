# The image of one node: Python, the tools that faults on links need, and the wheel of the nodes' code. `stormproof image`
# builds it. BASE is python:3.12-slim, or, where nothing can be pulled, what images/debian.sh makes from the distribution's
# packages; in both the result is the same but for the version of Python.
ARG BASE=python:3.12-slim

FROM ${BASE} AS tools
RUN command -v iptables && command -v ip && command -v ps && command -v sshd \
    || { apt-get update \
         && apt-get install -y --no-install-recommends iptables iproute2 procps openssh-server \
         && rm -rf /var/lib/apt/lists/*; }
# For faults on clocks; without it a run that asks for one says so before a node starts.
RUN ls /usr/lib/*/faketime/libfaketimeMT.so.1 \
    || { apt-get -o Acquire::Retries=0 update && apt-get install -y --no-install-recommends libfaketime; } \
    || echo "libfaketime can't be installed"; rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin stormproof

# A wheel of pure Python is installed by unpacking it; compiling here lets nodes start faster from a read-only disk.
FROM tools AS code
LABEL stormproof.stage=code
COPY *.whl /tmp/
RUN python3 -m zipfile -e /tmp/*.whl /opt/stormproof && python3 -m compileall -q -j 0 /opt/stormproof

FROM tools
COPY --from=code /opt/stormproof /opt/stormproof
RUN install -d -o 10001 -g 10001 /stormproof/disk
ENV PYTHONPATH=/opt/stormproof PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A node is built to be killed: whoever stops a container need not wait.
STOPSIGNAL SIGKILL
USER 10001:10001
WORKDIR /
ENTRYPOINT ["python3", "-m"]
CMD ["reference"]
