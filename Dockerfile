# The coord command, alone in an image: static, and not as root.
#
#   scripts/release linux/amd64 && docker build --build-arg BINARY=dist/coord_*_linux_amd64/coord -t coord .
#   docker run --rm coord status --url redis://redis.internal:6379 backup
#
# There is no shell in it: "coord lock NAME -- COMMAND" wants an image that has the command,
# into which the binary is copied.
FROM scratch
ARG BINARY
COPY ${BINARY} /coord
USER 65532:65532
ENTRYPOINT ["/coord"]
