#!/bin/bash
# mountpoint=legacy and mount(8), as fstab, container engines and some distributions mount ZFS: mount -t zfs or the helper that is installed mounts it.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; $ZFS create -o mountpoint=legacy $P/leg || wrong create; mkdir $T/l $T/bin; ln -s "$(command -v $SAW)" $T/bin/mount.fuse.sawmill; ln -s "$(command -v $SAW)" $T/bin/mount.zfs
if [ "$($SAW zfs version 2>/dev/null | head -1)" ]; then $T/bin/mount.zfs $P/leg $T/l -o rw || $T/bin/mount.fuse.sawmill $P/leg $T/l -o rw; else mount -t zfs $P/leg $T/l; fi
grep -q " $T/l " /proc/mounts || wrong "no way to mount it by mount(8): $(tail -1 $T/err)"
echo x >$T/l/x; umount $T/l; sleep 1; [ "$($ZFS get -Ho value mounted $P/leg)" = no ] || wrong "told as mounted after umount"; $ZFS mount $P/leg && wrong "zfs mount of a legacy one"; right "mounted and unmounted by mount(8)"
