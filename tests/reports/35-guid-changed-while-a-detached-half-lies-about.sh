#!/bin/bash
# A mirror half offlined, detached and left in the directory; the pool gets a new guid: import lists each pool once and opens the right one.
. "$(dirname "$0")/common.bash"
truncate -s 256M $T/z1 $T/z2 $T/z3; $ZPOOL create -m $M $P mirror $T/z1 $T/z2 $T/z3 || wrong create; echo x >$M/x; $ZPOOL sync
$ZPOOL offline $P $T/z2 && $ZPOOL detach $P $T/z2 || wrong "detach: $(tail -1 $T/err)"; $ZPOOL reguid $P || wrong "reguid: $(tail -1 $T/err)"; echo y >$M/y; G=$($ZPOOL get -Ho value guid $P)
$ZPOOL export $P; $ZPOOL import -d $T >$T/l; [ "$(grep -c "id: $G" $T/l)" = 1 ] || wrong "the pool is listed $(grep -c "id: $G" $T/l) times: $(grep -E 'pool:|id:|state:' $T/l | tr -s '\n ' ' ')"
K=$(grep -c 'pool:' $T/l); $ZPOOL import -d $T $P || { $ZPOOL import -d $T $G || wrong "import: $(tail -1 $T/err)"; O="by name: $(grep -m1 import $T/err);"; }
[ -e $M/y ] && [ -e $M/x ] || wrong "an older state was opened"; $ZPOOL status $P | grep -q z2 && wrong "the detached half is back"
# a copy of a device and a pool that was destroyed on a larger device
cp --sparse=always $T/z1 $T/copy; $ZPOOL import -d $T >$T/l2; grep -q "id: $G" $T/l2 && O="${O:-} an open pool is listed by its copied device;"
$ZPOOL export $P; mkdir $T/d2 $T/d3; mv $T/copy $T/d2; mv $T/z1 $T/z3 $T/d3; $ZPOOL import -d $T/d2 $P && O="${O:-} the lone copy imports, degraded;" && { $ZPOOL status $P | grep -q DEGRADED || wrong "a lone half counts as whole"; echo z >$M/z; $ZPOOL export $P; }
rm -r $T/d2; mv $T/d3/* $T; $ZPOOL import -d $T $G || wrong "import at the end: $(tail -1 $T/err)"; $ZPOOL create -f ${P}n $T/z1 && wrong "a device in use was taken"
$ZPOOL labelclear -f $T/z1 && wrong "labelclear of a device in use"; $ZPOOL labelclear $T/z2 && L=1 || { $ZPOOL labelclear -f $T/z2 || wrong "labelclear -f: $(tail -1 $T/err)"; }
$ZPOOL destroy $P; $ZPOOL import -d $T | grep -q "pool: " && wrong "a destroyed pool is listed: $($ZPOOL import -d $T | head -3 | tr '\n' ' ')"; $ZPOOL import -D -d $T | grep -q "$P" || wrong "-D does not list it"
$ZPOOL import -D -f -d $T $P || wrong "import of the destroyed pool: $(tail -1 $T/err)"; [ -e $M/y ] || wrong "data"; $ZPOOL destroy $P; for i in 1 3; do $ZPOOL labelclear -f $T/z$i || wrong "labelclear $i"; done; $ZPOOL import -D -d $T | grep -q pool: && wrong "a ghost after labelclear"
right "listed once ($K in all);${O:-}"
