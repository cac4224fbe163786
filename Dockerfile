# The daemon of Sawmill and its commands in a container: docs/containers.md.
#
#   docker build -t sawmill .
#
# builds the program of this checkout with packages of Debian and crates.io alone. `scripts/image` makes an image of a program
# that is built already: PACKAGE=given takes the Debian package that lies in the build's context.
ARG BASE=debian:bookworm-slim
ARG PACKAGE=built

FROM rust:1.95-bookworm AS built
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package sawmill-cli && scripts/package target/release/sawmill && mv target/package/*.deb /

FROM scratch AS given
COPY *.deb /

FROM ${PACKAGE} AS package

FROM ${BASE}
COPY --from=package /*.deb /tmp/
RUN dpkg --install /tmp/*.deb && rm /tmp/*.deb
# The list of pools, and the number of this host, from which a pool knows who had it open.
VOLUME /var/lib/sawmill
HEALTHCHECK CMD ["sawmill", "daemon", "status"]
# SIGTERM: the daemon syncs and unmounts all pools, and ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sawmill", "daemon", "run"]
