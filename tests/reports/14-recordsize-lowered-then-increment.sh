#!/bin/bash
# One-block files of odd size, then a smaller recordsize and appends, sent as increments: the receiver has the same bytes and takes appends.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create
for fl in "" "-L" "-Lec"; do for big in 128k 1M; do
  $ZFS create -o recordsize=$big -o compression=lz4 $P/s
  for n in 3000 89600 120000 700000 1000000; do head -c $n /dev/urandom >$M/s/f$n; done
  $ZFS snapshot $P/s@1; $ZFS set recordsize=16k $P/s
  for f in $M/s/f*; do head -c 50000 /dev/urandom >>$f; done; $ZFS snapshot $P/s@2
  for f in $M/s/f*; do dd if=/dev/urandom of=$f bs=777 seek=60 count=2 conv=notrunc; truncate -s -20000 $f; done; head -c 90000 /dev/urandom >$M/s/later; $ZFS snapshot $P/s@3
  for rs in 16k 64k 128k; do D=${P}b/r
    $ZFS send $fl $P/s@1 | $ZFS receive -o recordsize=$rs $D || wrong "full: $(tail -1 $T/err)"
    for i in 2 3; do $ZFS send $fl -i @$((i-1)) $P/s@$i | $ZFS receive -F $D || wrong "'$fl' $big->16k into $rs, increment $i: $(tail -1 $T/err)"
      diff -r $M/s/.zfs/snapshot/$i $T/n/r >$T/d || wrong "'$fl' $big into $rs, increment $i: $(head -1 $T/d)"; done
    for f in $T/n/r/f*; do cp $f $T/cp; head -c 70000 /dev/urandom | tee -a $T/cp >>$f; cmp $f $T/cp || wrong "append to a received file"; done; $ZPOOL sync ${P}b
    for f in $T/n/r/f*; do cat $f >/dev/null || wrong "read after append: $(tail -1 $T/err)"; done
    $ZFS destroy -r $D
  done; $ZFS destroy -r $P/s
done; done
right "18 received trees equal, appends kept"
