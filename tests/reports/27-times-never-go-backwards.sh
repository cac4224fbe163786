#!/bin/bash
# futimens(now) after creat, write, rename, chmod, link: no time of a file goes backwards, and make sees what is newer.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a; $ZFS create -o atime=on -o relatime=off $P/f || wrong create
cat >$T/t.py <<'Y'
import os,sys,time,ctypes
m=sys.argv[1]; bad=[]; c=ctypes.CDLL(None,use_errno=True); fine=0
def st(p): s=os.stat(p); return s.st_atime_ns,s.st_mtime_ns,s.st_ctime_ns
for i in range(400):
    p=f'{m}/t{i}'; f=os.open(p,os.O_CREAT|os.O_RDWR); a=st(p)
    if c.futimens(f,None): bad.append('futimens')
    b=st(p)
    if b[1]<a[1] or b[0]<a[0] or b[2]<a[2]: bad.append(f'futimens(now) after creat: back by {max(a[k]-b[k] for k in range(3))} ns')
    for name,do in (('write',lambda:os.pwrite(f,b'x',i)),('utime',lambda:os.utime(p)),('chmod',lambda:os.chmod(p,0o600+i%8)),('write',lambda:os.pwrite(f,b'y'*5000,i)),('truncate',lambda:os.ftruncate(f,i)),('utime',lambda:os.utime(f)),('setxattr',lambda:os.setxattr(p,'user.a',b'1')),('link',lambda:os.link(p,p+'l')),('unlink',lambda:os.unlink(p+'l')),('fsync',lambda:os.fsync(f)),('read',lambda:os.pread(f,1,0)),('chown',lambda:os.chown(p,1,1))):
        n0=time.clock_gettime_ns(5); do(); n1=time.time_ns(); d=st(p)
        for k,w in enumerate(('atime','mtime','ctime')):
            if d[k]<b[k]: bad.append(f'{w} back by {b[k]-d[k]} ns at {name}')
            if d[k]>n1: bad.append(f'{w} in the future by {d[k]-n1} ns after {name}')
        if name in('write','truncate','utime') and d[1]<n0: bad.append(f'mtime older than {name} by {n0-d[1]} ns')
        if name in('chmod','setxattr','link','unlink','chown','truncate','write') and d[2]<n0: bad.append(f'ctime older than {name} by {n0-d[2]} ns')
        b=d
    g=os.open(f'{m}/o{i}',os.O_CREAT|os.O_WRONLY); os.write(g,b'1'); os.close(g)
    if st(f'{m}/o{i}')[1]<b[1]: bad.append(f'a file written later is older by {b[1]-st(f"{m}/o{i}")[1]} ns')
    os.close(f); k0=st(p)
    if k0<b: bad.append('close')
from collections import Counter
import re
if bad: k=Counter(re.sub(r'\d+','N',x) for x in bad); sys.stderr.write('; '.join(f'{n}x {x}' for x,n in k.most_common(5))+f' e.g. {bad[0]}\n'); sys.exit(1)
Y
python3 $T/t.py $M/f || wrong "$(tail -1 $T/err)"
$ZFS set org.sawmill:writeback=on $P/f; $ZFS unmount $P/f; $ZFS mount $P/f; rm -f $M/f/*; python3 $T/t.py $M/f || wrong "with writeback: $(tail -1 $T/err)"
right "400 files, 12 operations each, with and without writeback"
