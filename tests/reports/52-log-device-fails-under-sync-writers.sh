#!/bin/bash
# The only log fails its writes, its flushes, or hangs, while programs sync; sync=always and disabled: no acknowledged write is lost, writers go on, status tells.
. "$(dirname "$0")/common.bash"
cat >$T/w.py <<'Y'
import os,sys,time
f=os.open(sys.argv[1],os.O_CREAT|os.O_RDWR|(os.O_DSYNC if sys.argv[4]=='d' else 0)); a=open(sys.argv[2],'w'); n=0; end=time.time()+float(sys.argv[3]); worst=0
try:
    while time.time()<end:
        t=time.time(); os.pwrite(f,b'%08d'%n*512,n%200*4096)
        if sys.argv[4]=='f': os.fsync(f)
        worst=max(worst,time.time()-t); n+=1; a.seek(0); a.write('%08d %.1f'%(n,worst)); a.flush()
except OSError as e: a.seek(0); a.write('%08d %.1f'%(n,worst)); a.flush(); sys.stderr.write(f'writer: {e}\n')
Y
cat >$T/c.py <<'Y'
import sys
n=int(open(sys.argv[2]).read().split()[0]); d=open(sys.argv[1],'rb').read(); assert n>5,n
for k in range(max(0,n-200),n): assert int(d[k%200*4096:][:8])>=k,(k,n)
Y
for how in "-e io -T write" "-e io -T flush" "-e nxio -T all" "-D 30000:1"; do
  truncate -s 1G $T/a; truncate -s 256M $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong "create: $(tail -1 $T/err)"; $ZFS create -o sync=always $P/al; $ZFS create $P/st; : >$T/err
  python3 $T/w.py $M/st/f $T/k1 14 d & Q=$!; python3 $T/w.py $M/st/g $T/k2 14 f & Q="$Q $!"; python3 $T/w.py $M/al/h $T/k3 14 n & Q="$Q $!"; sleep 3; $SAW zinject -d $T/l $how $P >/dev/null || wrong "zinject $how: $(tail -1 $T/err)"
  sleep 8; $ZPOOL status $P >$T/s; kill -9 $($SAW daemon status --pid); wait $Q; mv $T/l $T/l.gone; grep writer: $T/err | grep -viE "not connected|abort" && wrong "$how: $(grep writer: $T/err | head -1)"
  $ZPOOL list $P >/dev/null 2>&1; mountpoint -q $M/st || { mv $T/l.gone $T/l; $ZPOOL list $P >/dev/null 2>&1 || $ZPOOL import -d $T $P; X="with the log back"; }; mountpoint -q $M/st || wrong "$how: pool does not come back: $($ZPOOL import -d $T 2>&1 | grep -E 'status|action|UNAVAIL' | head -3 | tr -s '\n\t ' ' ')"
  i=0; for f in st/f st/g al/h; do i=$((i+1)); python3 $T/c.py $M/$f $T/k$i || wrong "$how: $f: $(tail -1 $T/err)"; done; L="${L:-} [$how: worst wait $(cut -d' ' -f2 $T/k? | sort -n | tail -1) s, status $(awk '/logs/{getline;print $2,$3,$4,$5}' $T/s | tr -s ' \n' ' ')${X:+, $X}]"; X=
  grep -A1 logs $T/s | grep -q "ONLINE *0 *0 *0" && wrong "$how: status tells nothing: $(grep -A1 logs $T/s | tail -1)"
  $ZPOOL destroy -f $P || wrong "destroy: $(tail -1 $T/err)"; $SAW zinject -c all >/dev/null 2>&1; rm -f $T/l*; done
right "$L"
