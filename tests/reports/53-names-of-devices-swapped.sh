#!/bin/bash
# Devices whose names change places between stops: after a kill, an export, with -d, as links, a pool finds each by what is on it and writes the new paths.
. "$(dirname "$0")/common.bash"
truncate -s 300M $T/a $T/b $T/c $T/l; mkdir $T/by; for x in a b c l; do ln -s ../$x $T/by/id-$x; done
$ZPOOL create -f -m $M $P $T/a mirror $T/b $T/c log $T/l || wrong create; head -c 60M /dev/urandom >$M/f; H=$(md5sum <$M/f); $ZPOOL sync
sw() { mv $T/$1 $T/t; mv $T/$2 $T/$1; mv $T/t $T/$2; }; ok() { [ "$(md5sum <$M/f)" = "$H" ] || wrong "$1: data: $($ZPOOL status $P | sed -n '/config/,$p' | tr -s '\n\t ' ' ') $(tail -1 $T/err)"; $ZPOOL status $P | grep -qE "UNAVAIL|FAULTED|[1-9][0-9]* +[0-9]+ *$" && O="${O:-} $1: $($ZPOOL status $P | grep -E 'UNAVAIL|FAULTED' | head -1 | tr -s ' \t' ' ');"; $ZPOOL scrub -w $P; $ZPOOL status $P | grep -q "0B.* with 0 errors" || wrong "$1: scrub: $($ZPOOL status $P | grep scan:)"; }
python3 -c "
import os; f=os.open('$M/sync',os.O_CREAT|os.O_WRONLY|os.O_DSYNC)
for i in range(200): os.write(f,b'%05d'%i*900)"; kill -9 $($SAW daemon status --pid); sw a b; sw c l; $ZPOOL list $P >/dev/null 2>&1
if $ZPOOL list $P >/dev/null 2>&1; then K="came back by itself"; else K="not by itself"; $ZPOOL import -d $T $P || wrong "after a kill with swapped names: $(tail -1 $T/err)"; fi
mountpoint -q $M || $ZFS mount $P; ok "after a kill"; [ $(stat -c %s $M/sync) = 900000 ] && [ "$(tail -c 5 $M/sync)" = 00199 ] || wrong "what was synced: $(stat -c %s $M/sync)"
V=$($ZPOOL status -P $P | grep -oE "$T/[abcl]\b" | tr '\n' ' '); [ "$V" = "$T/b $T/a $T/l $T/c " ] || O="${O:-} status names $V for b a l c;"
$ZPOOL export $P; sw a c; sw b l; $ZPOOL import -d $T $P || wrong "after an export: $(tail -1 $T/err)"; ok "after an export"; $ZPOOL export $P
$ZPOOL import -d $T/by $P || wrong "by links: $(tail -1 $T/err)"; ok "by links"; $ZPOOL status -P $P | grep -q "$T/by/id-" || O="${O:-} links are resolved: $($ZPOOL status -P $P | grep -m1 -oE "$T/[a-z/-]*" | sed "s|$T|T|");"
kill -9 $($SAW daemon status --pid); mv $T/by $T/by2; [ "$($ZPOOL list -Ho health $P)" = ONLINE ] || { $ZPOOL import -d $T/by2 $P || wrong "links moved away: $(tail -1 $T/err)"; }; mountpoint -q $M || $ZFS mount $P; ok "links moved away"
$ZPOOL export $P; mv $T/a $T/renamed-a; $ZPOOL import -d $T/b -d $T/c -d $T/l -d $T/renamed-a $P || wrong "-d of single files: $(tail -1 $T/err)"; ok "-d of single files"
$ZPOOL export $P; $ZPOOL import -d $T $P ${P}new || wrong "import under a new name: $(tail -1 $T/err)"; [ "$(md5sum <$M/f)" = "$H" ] || wrong "data under a new name"
right "$K; ${O:-}"
