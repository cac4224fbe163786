#!/bin/bash
# A file of many small blocks is emptied, the recordsize raised, and some 33 KB written: no odd block size, no panic, and streams take it.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
$ZFS create -o recordsize=4k $P/s; head -c 33348 /dev/urandom >$T/x; head -c 200000 /dev/urandom >$T/y
for i in 1 2 3 4 5; do head -c 8M /dev/urandom >$M/s/f$i; done; $ZPOOL sync $P
for i in 1 2 3 4 5; do case $i in 1|2) truncate -s 0 $M/s/f$i;; 3) truncate -s 3000 $M/s/f$i;; 4) truncate -s 5000 $M/s/f$i;; 5) fallocate -p -o 0 -l 8388608 $M/s/f$i;; esac; done; $ZPOOL sync $P
$ZFS set recordsize=128k $P/s
dd if=$T/x of=$M/s/f1 bs=33348 conv=notrunc; cat $T/y >>$M/s/f2; cat $T/x >>$M/s/f3; cat $T/y >>$M/s/f4; dd if=$T/x of=$M/s/f5 bs=33348 conv=notrunc; $ZPOOL sync $P
cmp $M/s/f1 $T/x && cmp $M/s/f2 $T/y && tail -c 33348 $M/s/f3 | cmp - $T/x && tail -c 200000 $M/s/f4 | cmp - $T/y && head -c 33348 $M/s/f5 | cmp - $T/x || wrong "read back"
cksum $M/s/f* | awk '{print $1,$2}' >$T/1
cat $T/x >>$M/s/f1; $ZFS snapshot $P/s@1; $ZFS send $P/s@1 | $ZFS receive $P/r || wrong "receive: $(tail -1 $T/err)"
diff -r $M/s $M/r || wrong "received differs"
$ZPOOL export $P && $ZPOOL import -d $T $P || wrong "export and import: $(tail -1 $T/err)"
diff -r $M/s $M/r || wrong "after import"; cat $T/x $T/x | cmp - $M/s/f1 || wrong "f1 after import"
$ZPOOL scrub -w $P; $ZPOOL status $P | grep -q "with 0 errors" || wrong scrub
$ZPOOL export $P; Z=${ZDB:-/usr/sbin/zdb}; [ -x $Z ] && { FAKETIME="+0 x100" LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1 timeout 200 $Z -e -p $T -bcc $P >$T/z || wrong "zdb: $(tail -1 $T/z)"; }
right "five files, sent, imported, scrubbed, zdb"
