#!/bin/bash
# The new device of a replace goes away in the middle: the pool stays, the old one can be had back, another replace ends; a healthy half is not let go.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a $T/b $T/n1 $T/n2; $ZPOOL create -O compression=off -m $M $P mirror $T/a $T/b || wrong create
head -c 300M /dev/urandom >$M/f; H=$(md5sum <$M/f); $ZPOOL sync; $SAW zinject -d $T/b -D 10:1 $P >/dev/null
$ZPOOL offline $P $T/a || wrong offline; dd if=/dev/urandom of=$M/g bs=1M count=20; H2=$(md5sum <$M/g)
$ZPOOL detach $P $T/b && wrong "the only up-to-date half was detached"; $ZPOOL offline $P $T/b && wrong "the only up-to-date half was taken offline"
$ZPOOL replace $P $T/a $T/n1 || wrong "replace: $(tail -1 $T/err)"; sleep 1; truncate -s 0 $T/n1; $SAW zinject -d $T/n1 -e nxio -T all $P >/dev/null || $ZPOOL offline $P $T/n1
for i in $(seq 20); do $ZPOOL status $P | grep -qE "n1 +(UNAVAIL|FAULTED|OFFLINE|REMOVED)" && break; sleep 1; done
[ "$(md5sum <$M/f)" = "$H" ] && [ "$(md5sum <$M/g)" = "$H2" ] || wrong "data"
$SAW zinject -c all >/dev/null; timeout 60 $ZPOOL detach $P $T/n1 || O="the dead new device cannot be detached: $(tail -1 $T/err);"
$ZPOOL status $P | grep -q replacing && { [ -n "${O:-}" ] || wrong "still replacing: $($ZPOOL status $P | sed -n '/config/,$p' | tr -s '\n\t ' ' ')"; }
A=$($ZPOOL status -g $P | awk '/OFFLINE/{print $1}' | head -1); timeout 100 $ZPOOL replace -w $P ${A:-$T/a} $T/n2 || wrong "second replace: $(tail -1 $T/err) $($ZPOOL status $P | sed -n '/config/,$p' | tr -s '\n\t ' ' ')"
S=$($ZPOOL status $P); grep -qE "/n1|old|replacing" <<<"$S" && wrong "left behind: $(sed -n '/config/,$p' <<<"$S" | tr -s '\n\t ' ' ')"; $ZPOOL status -x $P | grep -q healthy || wrong "not healthy: $(tr -s '\n\t ' ' ' <<<"$S")"
$ZPOOL detach $P $T/b || wrong "detach of the old half now: $(tail -1 $T/err)"; $ZPOOL export $P; rm $T/a $T/b; $ZPOOL import -d $T $P || wrong "import from the new device alone: $(tail -1 $T/err)"
[ "$(md5sum <$M/f)" = "$H" ] && [ "$(md5sum <$M/g)" = "$H2" ] || wrong "data of the new device"; $ZPOOL scrub -w $P; $ZPOOL status $P | grep -q "with 0 errors" || wrong scrub
right "old half kept, second replace ended; ${O:-}"
