#!/bin/bash
# Times before 1970, after 2038 and 2106, with nanoseconds, of files, directories and links: kept over a remount, a stream and tar.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; $ZFS create $P/f
cat >$T/t.py <<'Y'
import os,sys
m,how=sys.argv[1:3]; bad=[]
S=[-14245441,-1,-2,0,1,2**31-1,2**31,2**32-1,2**32,2**33,-2**31,-2**31-1,-62135596800,253402300799,16725225600]
for i,s in enumerate(S):
    for ns in (0,1,750000000,999999999):
        for kind in 'fdl':
            p=f'{m}/{kind}{i}.{ns}'; t=s*10**9+ns
            if how=='set':
                {'f':lambda:open(p,'w').close(),'d':lambda:os.mkdir(p),'l':lambda:os.symlink('x',p)}[kind]()
                try: os.utime(p,ns=(t,t+0),follow_symlinks=False)
                except OSError as e: bad.append(f'{s}.{ns:09d} {kind}: {e}'); continue
            v=os.lstat(p); 
            if v.st_mtime_ns!=t: bad.append(f'{kind} mtime {s}.{ns:09d} reads {v.st_mtime_ns}')
            if how=='set' and v.st_atime_ns!=t: bad.append(f'{kind} atime {s}.{ns:09d} reads {v.st_atime_ns}')
if bad: sys.stderr.write(f'{len(bad)} of {len(S)*12}: '+'; '.join(bad[:3])+'\n'); sys.exit(1)
Y
python3 $T/t.py $M/f set || wrong "set: $(tail -1 $T/err)"
$ZFS unmount $P/f; $ZFS mount $P/f; python3 $T/t.py $M/f get || wrong "after a remount: $(tail -1 $T/err)"
$ZFS snapshot $P/f@1; $ZFS send $P/f@1 | $ZFS receive $P/r; python3 $T/t.py $M/r get || wrong "after send and receive: $(tail -1 $T/err)"
python3 $T/t.py $M/f/.zfs/snapshot/1 get || wrong "in the snapshot: $(tail -1 $T/err)"
mkdir $M/t; tar -C $M/f --format=pax -cf - . | tar -C $M/t -xf -; python3 $T/t.py $M/t get || wrong "after tar: $(tail -1 $T/err)"
python3 - $M/f $P $T <<'Y'; touch -d 2040-01-01T00:00:00.5Z $M/f/f0.0; kill -9 $($SAW daemon status --pid); $ZPOOL list >/dev/null
import os,sys; f=os.open(sys.argv[1]+'/crash',os.O_CREAT|os.O_WRONLY); os.utime(f,ns=(-5*10**8,2**33*10**9+7)); os.fsync(f)
Y
[ "$(stat -c %.9Y $M/f/crash)" = 8589934592.000000007 ] || wrong "after a crash: $(stat -c %.9Y $M/f/crash)"
[ $(stat -c %W $M/f/crash) -gt 1000000000 ] || O="no birth time: $(stat -c %w $M/f/crash)"
right "15 moments, four fractions, three kinds; ${O:-}"
