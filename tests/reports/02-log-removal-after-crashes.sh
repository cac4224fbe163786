#!/bin/bash
# A log that was in use at crashes can be removed each time, leaves nothing behind, and nothing acknowledged is lost.
. "$(dirname "$0")/common.bash"
cat >$T/w.py <<'Y'
import os,sys,time
f=os.open(sys.argv[1],os.O_CREAT|os.O_RDWR|os.O_DSYNC); a=open(sys.argv[2],'w'); n=0; end=time.time()+60
try:
    while time.time()<end: os.pwrite(f,b'%08d'%n*512,n%64*4096); n+=1; a.seek(0); a.write('%08d'%n); a.flush()
except OSError: pass
Y
cat >$T/c.py <<'Y'
import sys
n=int(open(sys.argv[2]).read() or 0); d=open(sys.argv[1],'rb').read()
assert n>50,n
for k in range(max(0,n-64),n): assert int(d[k%64*4096:][:8])>=k,k
Y
truncate -s 512M $T/a $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create
for i in 1 2 3; do
  for w in 1 2 3 4; do python3 $T/w.py $M/f$i.$w $T/ack$i.$w & done
  for k in $(seq 100); do sleep .3; [ $(for w in 1 2 3 4; do cat $T/ack$i.$w; echo; done 2>/dev/null | awk '$1>100' | wc -l) = 4 ] && break; done; kill -9 $($SAW daemon status --pid); wait
  $ZPOOL list $P >/dev/null || wrong "pool does not come back"
  for w in 1 2 3 4; do python3 $T/c.py $M/f$i.$w $T/ack$i.$w || wrong "round $i: acknowledged bytes lost: $(tail -1 $T/err)"; done
  $ZPOOL remove $P $T/l || wrong "remove: $(tail -1 $T/err)"
  for k in 1 2 3 4 5 6 7 8; do $ZPOOL status $P | grep -q logs || break; sleep 1; done
  $ZPOOL status $P | grep -q logs && wrong "round $i: the log stays in the list"
  $ZPOOL add $P log $T/l || wrong "add again: $(tail -1 $T/err)"
done
right "three crashes, three removals, nothing lost"
