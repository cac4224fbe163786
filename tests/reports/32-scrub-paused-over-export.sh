#!/bin/bash
# A scrub that was paused keeps its state and place over export and import, goes on, and ends with all of the pool looked at.
. "$(dirname "$0")/common.bash"
truncate -s 2G $T/a $T/b; $ZPOOL create -O compression=off -m $M $P mirror $T/a $T/b || wrong create
for i in 1 2 3 4 5 6; do $ZFS create $P/d$i; head -c 90M /dev/urandom >$M/d$i/f; done; $ZPOOL sync
for i in $(seq 200 40 900); do dd if=/dev/urandom of=$T/b bs=4k seek=$((i*256)) count=20 conv=notrunc; done
$SAW zinject -d $T/a -D 20:1 $P >/dev/null 2>&1; $SAW zinject -d $T/b -D 20:1 $P >/dev/null 2>&1
$ZPOOL scrub $P || wrong "scrub"; sleep 2; $ZPOOL scrub -p $P || wrong "pause (the scrub was too quick?): $(tail -1 $T/err)"; S1=$($ZPOOL status -p $P | grep -A3 'scan:' | tr -s '\n\t ' ' ')
grep -q "scrub paused" <<<"$S1" || wrong "not paused: $S1"; $ZPOOL export $P && $ZPOOL import -d $T $P || wrong "export, import"
S2=$($ZPOOL status -p $P | grep -A3 'scan:' | tr -s '\n\t ' ' '); grep -q "scrub paused" <<<"$S2" || wrong "after import: $S2"
sleep 2; $ZPOOL status $P | grep -q "scrub paused" || wrong "goes on by itself"
kill -9 $($SAW daemon status --pid); $ZPOOL status $P | grep -q "scrub paused" || wrong "after a crash: $($ZPOOL status $P | grep scan)"
P1=$(grep -oE '[0-9.]+% done' <<<"$S1"); P2=$(grep -oE '[0-9.]+% done' <<<"$S2")
$ZPOOL scrub $P || wrong "resume: $(tail -1 $T/err)"; timeout 120 $ZPOOL wait -t scrub $P || wrong "does not end: $($ZPOOL status $P | grep -A2 scan)"
$ZPOOL status $P | grep -qE "scrub repaired [1-9].* with 0 errors" || wrong "end: $($ZPOOL status $P | grep scan)"
$ZPOOL scrub -w $P; $ZPOOL status $P | grep -qE "repaired 0B .*0 errors" || wrong "the first scrub left damage: $($ZPOOL status $P | grep scan)"
right "paused at ${P1:-?}, after import ${P2:-?}, resumed, all repaired"
