#!/bin/bash
# receive -x mountpoint of an increment with properties, into what was received without: the mount point of the sender is not taken.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create
$ZFS create -o mountpoint=$T/foo $P/source; echo 1 >$T/foo/f; $ZFS snapshot $P/source@1; $ZFS send $P/source@1 | $ZFS receive $P/dest || wrong "full: $(tail -1 $T/err)"
[ "$($ZFS get -Ho value mountpoint $P/dest)" = $M/dest ] || wrong "first"
$ZFS snapshot $P/source@2; $ZFS send -p -i @1 $P/source@2 | $ZFS receive -x mountpoint $P/dest || wrong "increment: $(tail -1 $T/err)"
V=$($ZFS get -Ho value,source mountpoint $P/dest | tr '\t' ' '); [ "${V%% *}" = $M/dest ] || wrong "mountpoint is $V"
grep -q " $M/dest " /proc/mounts || wrong "not mounted at $M/dest: $(grep $P/dest /proc/mounts)"
[ "$(grep -c " $T/foo " /proc/mounts)" = 1 ] || wrong "mounted over the sender's"
# a tree, where the child has its own mount point, too
$ZFS create -o mountpoint=$T/bar $P/source/child; $ZFS set canmount=noauto $P/source; $ZFS snapshot -r $P/source@3
$ZFS send -R $P/source@3 | $ZFS receive -x mountpoint -o canmount=off $P/tree || wrong "tree: $(tail -1 $T/err)"
for d in tree tree/child; do [ "$($ZFS get -Ho value mountpoint $P/$d)" = $M/$d ] || wrong "$d: mountpoint $($ZFS get -Ho value,source mountpoint $P/$d)"; [ "$($ZFS get -Ho value canmount $P/$d)" = off ] || N2="canmount of $d: $($ZFS get -Ho value,source canmount $P/$d)"; done
$ZPOOL export $P; $ZPOOL import -d $T $P; for d in dest tree tree/child; do [ "$($ZFS get -Ho value mountpoint $P/$d)" = $M/$d ] || wrong "$d after import: $($ZFS get -Ho value,source mountpoint $P/$d)"; done
right "mount points stay below the receiver; ${N2:-}"
