#!/bin/bash
# A log of 64 MiB that large stable writes fill, sync switched between disabled, standard and always meanwhile: what was synced after a switch survives a kill.
. "$(dirname "$0")/common.bash"
truncate -s 2G $T/a; truncate -s 64M $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create; for d in f g; do $ZFS create -o recordsize=128k $P/$d; done
cat >$T/w.py <<'Y'
import os,sys,time
f=os.open(sys.argv[1],os.O_CREAT|os.O_RDWR|os.O_DSYNC); a=open(sys.argv[2],'w'); n=0; end=time.time()+40
try:
    while time.time()<end and os.pwrite(f,b'%08d'%n*131072,n%20*1048576)==1048576: n+=1; a.seek(0); a.write('%08d'%n); a.flush()
except OSError: pass
Y
for w in 1 2 3 4; do python3 $T/w.py $M/g/w$w $T/k$w & Q="${Q:-} $!"; done
for r in 1 2 3; do $ZFS set sync=disabled $P/f; for i in $(seq 20); do head -c $((i*9000)) /dev/urandom >$M/f/r$r.$i; mv $M/f/r$r.$i $M/f/s$r.$i; done; S=$(cat $M/f/s$r.* | md5sum)
  case $r in 1) $ZFS set sync=standard $P/f;; 2) $ZFS set sync=always $P/f;; 3) $ZFS inherit sync $P/f;; esac
  python3 -c "
import os
for i in range(1,21): f=os.open('$M/f/s$r.%d'%i,os.O_RDWR); os.fsync(f)
f=os.open('$M/f',os.O_RDONLY); os.fsync(f)"; echo "$S" >$T/sum$r; done
sleep 2; $ZPOOL list -v $P >$T/lv; kill -9 $($SAW daemon status --pid); wait $Q; $ZPOOL list $P >/dev/null || wrong "pool does not come back: $(tail -1 $T/err)"
for r in 1 2 3; do [ "$(cat $M/f/s$r.* | md5sum)" = "$(cat $T/sum$r)" ] || wrong "round $r: what was written with sync=disabled and synced after the switch is not there"; done
for w in 1 2 3 4; do python3 - $M/g/w$w $T/k$w <<'Y' || wrong "writer $w: $(tail -1 $T/err)"
import sys
n=int(open(sys.argv[2]).read() or 0); d=open(sys.argv[1],'rb').read(); assert n>5,n
for k in range(max(0,n-19),n):
    b=d[k%20*1048576:][:1048576]; v=int(b[:8]); r=b'%08d'%v*131072; j=next((i for i in range(0,1048576,8) if b[i:i+8]!=r[i:i+8]),None); assert v>=k and j is None,f'write {k} of {n} acknowledged: from byte {j} on {b[j:j+8] if j is not None else b[:8]}'
Y
done
$ZPOOL status $P | grep -q "No known data errors" || wrong status; right "switched three times, $(for w in 1 2 3 4; do cat $T/k$w; echo; done | awk '{s+=$1}END{print s+0}') MiB through a log of 64 MiB"
