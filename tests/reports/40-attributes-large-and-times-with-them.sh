#!/bin/bash
# Extended attributes of awkward lengths, many and large, and the ctime that changes with each; atime=off counts at once.
. "$(dirname "$0")/common.bash"
export T
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
for x in sa dir; do for dn in legacy auto 1k; do $ZFS create -o xattr=$x -o dnodesize=$dn -o acltype=posix $P/f
python3 - $M/f <<'Y' || wrong "xattr=$x dnodesize=$dn: $(tail -1 $T/err)"
import os,sys,random,time
m=sys.argv[1]; r=random.Random(3); p=m+'/f'; open(p,'w').close(); want={}
def check(q,w):
    assert sorted(os.listxattr(q))==sorted(w),(sorted(os.listxattr(q))[:3],sorted(w)[:3])
    for k,v in w.items(): assert os.getxattr(q,k)==v,(k,len(v))
for n in (5000,20000,20000,6000): k=f'user.{len(want)}'; v=r.randbytes(n); os.setxattr(p,k,v); want[k]=v; check(p,want)
for i in range(200):
    k='user.'+r.choice('abcdefghij')*r.choice([1,5,200,250]); c0=os.stat(p).st_ctime_ns; time.sleep(.005)
    if r.random()<.25 and k in want: os.removexattr(p,k); del want[k]; op='remove'
    else:
        v=r.randbytes(r.choice([0,1,7,8,100,511,4000,9000,65535])); 
        try: op=f'set {len(v)} over {len(want.get(k,b"")) if k in want else None}'; os.setxattr(p,k,v); want[k]=v
        except OSError as e:
            if e.errno not in(28,7): raise
            continue
    assert os.stat(p).st_ctime_ns>c0,('ctime stays at a change of an attribute',i,op,len(want),sum(map(len,want.values())),os.stat(p).st_ctime_ns-c0)
    if i%20==0: check(p,want)
for e,fl,w in ((17,os.XATTR_CREATE,next(iter(want))),(61,os.XATTR_REPLACE,'user.never')):
    try: os.setxattr(p,w,b'',fl); sys.exit('flags of setxattr ignored')
    except OSError as x: assert x.errno==e,x
os.mkdir(m+'/d'); os.symlink('f',m+'/l'); os.setxattr(m+'/d','user.dir',b'x'*3000); os.setxattr(m+'/l','trusted.t',b'link',follow_symlinks=False); assert os.getxattr(m+'/l','trusted.t',follow_symlinks=False)==b'link'
os.chown(p,1,1); os.chmod(p,0o4755); check(p,want); os.rename(p,m+'/d/g'); check(m+'/d/g',want)
import json; open(os.environ['T']+'/want','wb').write(repr(want).encode())
Y
$ZFS unmount $P/f; $ZFS mount $P/f; python3 -c "
import os; w=eval(open('$T/want').read()); p='$M/f/d/g'; assert sorted(os.listxattr(p))==sorted(w)
for k,v in w.items(): assert os.getxattr(p,k)==v,k" || wrong "xattr=$x dnodesize=$dn, after a remount: $(tail -1 $T/err)"
touch $M/f/e; setfacl -m u:7:r $M/f/e; c=$(stat -c %.Z $M/f/e); sleep .02; setfacl -m u:8:rwx $M/f/e; [ $(stat -c %.Z $M/f/e) != $c ] || wrong "ctime stays at a change of the ACL"
$ZFS destroy -r $P/f; done; done
$ZFS create -o atime=on -o relatime=off $P/t; echo x >$M/t/x; touch -a -d 2001-01-01 $M/t/x; cat $M/t/x >/dev/null; [ $(stat -c %X $M/t/x) -gt 1500000000 ] || O="atime=on, relatime=off does not move the atime"
touch -a -d 2001-01-01 $M/t/x; $ZFS set atime=off $P/t; cat $M/t/x >/dev/null; [ $(stat -c %X $M/t/x) -lt 1500000000 ] || wrong "atime moves after atime=off"
right "six kinds of file systems; ${O:-}"
