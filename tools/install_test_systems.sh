#!/usr/bin/env bash
# Install the real systems that the tests meet: sshd, Slurm, Grid Engine, and SPIN for the model of the protocol.
#
# For Debian and its kin, as root; anywhere else it says what is missing and leaves the machine alone. No daemon is
# started: the tests start their own, in private folders, and end them again.
set -euo pipefail

packages=(
    openssh-server
    slurm-wlm slurmctld slurmd slurm-client munge
    gridengine-master gridengine-exec gridengine-client
    spin libc6-dev gcc
)

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "real systems: all there"
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "real systems: NOT INSTALLED: ${missing[*]}" >&2
    echo "The tests that need them are skipped and say so. On Debian, as root: $0" >&2
    exit 0
fi

# Debian's word for "start nothing while packages are installed"; put back as it was.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "real systems: installed ${missing[*]}"
