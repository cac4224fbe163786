#!/bin/bash
# A received file system that is mounted, read, remounted, imported anew is not changed by that: written is 0 and an increment needs no -F.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n -O atime=on -O relatime=off ${P}b $T/b || wrong create
for i in 1 2 3; do echo $i >$M/f$i; done; python3 - $M $ZFS $P <<'Y' || wrong "snapshot with a removed open file"
import os,sys,subprocess
f=os.open(sys.argv[1]+'/gone',os.O_CREAT|os.O_RDWR); os.write(f,b'x'*3000000); os.unlink(sys.argv[1]+'/gone'); os.fsync(f)
subprocess.check_call([sys.argv[2],'snapshot',sys.argv[3]+'@1'])
Y
w() { $ZPOOL sync ${P}b; $ZFS get -Hpo value written ${P}b/r; }
$ZFS send $P@1 | $ZFS receive -o readonly=on ${P}b/r || wrong "full: $(tail -1 $T/err)"
[ $(w) = 0 ] || wrong "after receive, readonly: written $(w)"; cat $T/n/r/f*; ls -lR $T/n/r >/dev/null
$ZFS unmount ${P}b/r && $ZFS mount ${P}b/r; [ $(w) = 0 ] || wrong "readonly, mounted once more: written $(w)"
$ZPOOL export ${P}b; $ZPOOL import -d $T ${P}b; cat $T/n/r/f* >/dev/null; [ $(w) = 0 ] || wrong "readonly, imported: written $(w)"
echo 4 >$M/f4; $ZFS snapshot $P@2; $ZFS send -i @1 $P@2 | $ZFS receive ${P}b/r || wrong "increment into a read-only replica: $(tail -1 $T/err)"
ls $T/n/r | grep -q f4 || wrong "f4"
$ZFS set readonly=off ${P}b/r; $ZFS set atime=off ${P}b/r; cat $T/n/r/f*; [ $(w) = 0 ] || O="writable, atime=off: written $(w)"
$ZFS unmount ${P}b/r && $ZFS mount ${P}b/r; cat $T/n/r/f* >/dev/null; echo 5 >$M/f5; $ZFS snapshot $P@3; $ZFS send -i @2 $P@3 | $ZFS receive ${P}b/r || O="${O:-} increment into a writable replica that was only read: $(tail -1 $T/err)"
right "read-only replicas unchanged; ${O:-}"
