#!/bin/bash
# zfs receive -s is killed; the token that is read as soon as its process has ended must lead to a stream that is taken.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create; mkfifo $T/ff
$ZFS create $P/d; for i in $(seq 40); do head -c 3M /dev/urandom >$M/d/f$i; done; $ZFS snapshot $P/d@1; $ZFS send $P/d@1 >$T/full
slow() { python3 -c "
import sys,time
f=open('$T/full','rb'); o=open('$T/ff','wb',0)
try:
    while True:
        b=f.read(1<<20)
        if not b: break
        o.write(b); time.sleep(.05)
except BrokenPipeError: pass"; }
for sig in TERM KILL HUP; do
  $ZFS receive -s ${P}b/r <$T/ff & R=$!; slow & S=$!; sleep 3; kill -$sig $R; wait $R
  K=$($ZFS get -Ho value receive_resume_token ${P}b/r); [ ${#K} -gt 20 ] || { wait $S; wrong "$sig: no token is kept: $K"; }
  $ZFS send -t $K >$T/rest || wrong "send -t: $(tail -1 $T/err)"; wait $S
  if ! $ZFS receive -s ${P}b/r <$T/rest; then E=$(tail -1 $T/err); sleep 2; K2=$($ZFS get -Ho value receive_resume_token ${P}b/r); [ "$K" = "$K2" ] && X="the token has not changed" || X="the token changed after the process had ended"
    $ZFS send -t $K2 | $ZFS receive -s ${P}b/r && X="$X, and the later one is taken"; wrong "$sig: $E; $X"; fi
  diff -r $M/d $T/n/r >/dev/null || wrong "$sig: contents"; $ZFS destroy -r ${P}b/r
done
right "three signals"
