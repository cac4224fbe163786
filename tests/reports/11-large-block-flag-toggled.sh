#!/bin/bash
# An increment sent with -L after a full stream without it, and the other way: no byte of what was not changed is lost, or it is refused.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create
$ZFS create -o recordsize=1M -o compression=off $P/s
head -c 9000000 /dev/urandom >$M/s/big; head -c 700000 /dev/urandom >$M/s/one; head -c 3000000 /dev/urandom >$M/s/still
$ZFS snapshot $P/s@1
dd if=/dev/urandom of=$M/s/big bs=1000 seek=3001 count=1 conv=notrunc; head -c 900000 /dev/urandom >>$M/s/one; $ZFS snapshot $P/s@2
for way in "|-L" "-L|" "-L|-e" "-Lec|-ec" "-ec|-Lec"; do
  A=${way%|*} B=${way#*|}; D=${P}b/r
  $ZFS send $A $P/s@1 | $ZFS receive $D || wrong "full $A: $(tail -1 $T/err)"
  if $ZFS send $B -i @1 $P/s@2 | $ZFS receive $D; then
    diff -r $M/s $T/n/r || wrong "full '$A', increment '$B': $(cmp $M/s/big $T/n/r/big) $(cmp $M/s/one $T/n/r/one)"; O="${O:-} '$A'+'$B' taken;"
    echo more >>$T/n/r/one; tail -c 5 $T/n/r/one | grep -q more || wrong "append to what was received"
  else diff -r $M/s/.zfs/snapshot/1 $T/n/r || wrong "refused, and the older snapshot is damaged"; O="${O:-} '$A'+'$B' refused;"; fi
  $ZFS destroy -r $D
done
right "$O"
