#!/bin/bash
# A pool whose only log is gone: import refuses, -m goes on, spare and cache device stay, the log can be taken out.
. "$(dirname "$0")/common.bash"
truncate -s 256M $T/a $T/b $T/l $T/s $T/c
$ZPOOL create -m $M $P mirror $T/a $T/b log $T/l spare $T/s cache $T/c || wrong "create"
echo hello >$M/f; $ZPOOL export $P || wrong "export"; rm $T/l
$ZPOOL import -d $T $P >$T/e 2>&1 && wrong "import without the log was not refused"
grep -q -- -m $T/e || wrong "nothing about -m: $(tr '\n' ' ' <$T/e)"
$ZPOOL import -m -d $T $P || wrong "import -m: $(tail -1 $T/err)"
S=$($ZPOOL status $P)
grep -q "$T/s" <<<"$S" || grep -q "spares" <<<"$S" || wrong "the spare is gone"
grep -q "cache" <<<"$S" || wrong "the cache device is gone"
[ "$(cat $M/f)" = hello ] || wrong "data"
G=$($ZPOOL status -g $P | awk '/logs/{getline;print $1}')
$ZPOOL remove $P $T/l || $ZPOOL remove $P $G || wrong "the missing log cannot be removed: $(tail -1 $T/err)"
sleep 1; $ZPOOL status $P | grep -q logs && wrong "the log is still listed"
$ZPOOL export $P && $ZPOOL import -d $T $P || wrong "second import"
right "refused, -m goes on, spare and cache stay, log removed"
