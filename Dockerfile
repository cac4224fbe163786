# Sawmill in a container: built from this checkout with Debian's and crates.io's packages alone.
#
#   docker build -t sawmill .
#   docker run -d --name sawmill --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined \
#       -v /srv/pools:/pools -v sawmill-state:/var/lib/sawmill sawmill
#   docker exec sawmill zpool create tank mirror /pools/a /pools/b
#
# Mounts are seen inside; `-v /srv/tank:/tank:rshared` shows one of them outside, too. What was open is open again when
# the container starts again.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package sawmill-cli && scripts/package target/release/sawmill

FROM debian:bookworm-slim
COPY --from=build /src/target/package/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/*
VOLUME /var/lib/sawmill
# Asked to stop, the daemon syncs its pools first.
STOPSIGNAL SIGTERM
CMD ["sawmill", "daemon", "run"]
