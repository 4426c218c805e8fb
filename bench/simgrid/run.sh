#!/bin/bash
# SPDX-License-Identifier: MIT
# The runtime model's exchanges against SimGrid's (Debian: libsimgrid-dev), in seconds:
#
#     bench/simgrid/run.sh BUILD
#
# 1 Gbit/s full duplex and 1 ms, the plain latency-bandwidth model, the same messages.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
command -v smpicc > /dev/null || { echo "smpicc is missing: install libsimgrid-dev" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
smpicc -O2 bench/simgrid/messages.c -o "$work/messages" 2> "$work/log" || { cat "$work/log" >&2; exit 1; }
${CC:-cc} -std=c11 -O2 -Iinclude bench/simgrid/predicted.c -o "$work/predicted" -L"$build" -lweft \
    -Wl,-rpath,"$build"
printf '%-11s %5s %12s %10s %10s %8s\n' exchange nodes 'bytes each' simgrid weft apart
for nodes in 16 64; do
    cat > "$work/platform.xml" << END
<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><cluster id="c" prefix="node-" suffix="" radical="0-$((nodes - 1))" speed="50Gf"
bw="125MBps" lat="500us" sharing_policy="SPLITDUPLEX"/></platform>
END
    seq 0 $((nodes - 1)) | sed 's/^/node-/' > "$work/hosts"
    for exchange in all-reduce all-gather pair; do
        for width in 64 128 256 512; do
            read -r bytes weft < <("$work/predicted" $exchange $nodes $width 1Gbit,1ms)
            simgrid=$(smpirun -np $nodes -platform "$work/platform.xml" -hostfile "$work/hosts" \
                --log=root.thresh:warning --cfg=smpi/bw-factor:0:1 --cfg=smpi/lat-factor:0:1 \
                --cfg=network/crosstraffic:0 --cfg=smpi/simulate-computation:no \
                --cfg=smpi/send-is-detached-thresh:1000000000 \
                "$work/messages" $exchange "$bytes" 2>> "$work/log") || { cat "$work/log" >&2; exit 1; }
            awk -v e=$exchange -v n=$nodes -v b="$bytes" -v s="$simgrid" -v w="$weft" 'BEGIN {
                printf "%-11s %5d %12d %10.6f %10.6f %+7.2f%%\n", e, n, b, s, w, 100 * (w / s - 1)}'
        done
    done
done
