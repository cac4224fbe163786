#!/bin/bash
# A mount point with files in it: with overlay=on they are covered, with overlay=off the mount is refused and says why; -O forces it.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create
$ZFS create $P/f || wrong create; echo in >$M/f/in; $ZFS unmount $P/f; echo below >$M/f/below
$ZFS mount $P/f || wrong "overlay=on (the default): refused: $(tail -1 $T/err)"; [ -e $M/f/in ] && [ ! -e $M/f/below ] || wrong "not covered"
$ZFS unmount $P/f; [ -e $M/f/below ] || wrong "what was covered is gone"
$ZFS set overlay=off $P/f || wrong "set overlay=off"
if $ZFS mount $P/f; then wrong "overlay=off: mounted over a directory that is not empty (OpenZFS: cannot mount: directory is not empty)"; fi
grep -q "not empty" $T/err || wrong "words: $(tail -1 $T/err)"
$ZFS mount -a && wrong "mount -a does not fail"
$ZFS mount -O $P/f || wrong "-O: $(tail -1 $T/err)"; [ -e $M/f/in ] || wrong "-O did not mount"
$ZFS unmount $P/f; $ZPOOL export $P; mkdir -p $M/f; echo below >$M/f/below; $ZPOOL import -d $T $P; [ "$($ZFS get -Ho value mounted $P/f)" = no ] || O="import mounted it, or the pool's root covers the directory"
right "covered, refused, forced; ${O:-}"
