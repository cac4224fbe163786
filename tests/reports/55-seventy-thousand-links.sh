#!/bin/bash
# A file with 70,000 names in several directories; ls, du, rsync -H and tar count it once; links come and go over a crash, and in .zfs.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
python3 - $M <<'Y' || wrong "$(tail -1 $T/err)"
import os,sys
m=sys.argv[1]; open(m+'/f','w').write('x'*100000); n=1
for d in range(7):
    os.mkdir(f'{m}/d{d}')
    for i in range(10000):
        try: os.link(m+'/f',f'{m}/d{d}/l{i}'); n+=1
        except OSError as e: sys.exit(f'link {n+1}: {e}')
assert os.stat(m+'/f').st_nlink==n==70001,(os.stat(m+'/f').st_nlink,n)
f=os.open(m+'/d3/l5',os.O_RDWR); os.fsync(f)
Y
kill -9 $($SAW daemon status --pid); $ZPOOL list $P >/dev/null; [ $(stat -c %h $M/f) = 70001 ] || wrong "after a crash: $(stat -c %h $M/f)"; $ZPOOL sync
[ $(du -k $M | tail -1 | cut -f1) -lt 60000 ] || wrong "du counts it $(du -k $M | tail -1 | cut -f1) KiB"; $ZFS snapshot $P@1
rm -r $M/d1 $M/d2; rm $M/f; [ $(stat -c %h $M/d3/l5) = 50000 ] || wrong "after rm: $(stat -c %h $M/d3/l5)"; [ $(stat -c %h $M/.zfs/snapshot/1/f) = 70001 ] || wrong "in the snapshot: $(stat -c %h $M/.zfs/snapshot/1/f)"
$ZFS send $P@1 | $ZFS receive $P/r && [ $(stat -c %h $M/r/f) = 70001 ] || wrong "received: $(stat -c %h $M/r/f)"; tar -C $M -cf $T/t d3 d4; [ $(stat -c %s $T/t) -lt 25000000 ] || wrong "tar: $(stat -c %s $T/t)"
$ZFS rollback $P@1 && [ $(stat -c %h $M/f) = 70001 ] || wrong "after a rollback: $(stat -c %h $M/f)"; rm -r $M/d*; [ $(stat -c %h $M/f) = 1 ] || wrong "at the end: $(stat -c %h $M/f)"
right "70,001 names"
