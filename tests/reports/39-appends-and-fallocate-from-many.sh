#!/bin/bash
# Eight processes append with O_APPEND, by write, writev, io from threads, while others fallocate and sync: no record is lost, torn or overlaid.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create; $ZFS create -o org.sawmill:writeback=on $P/wb
cat >$T/t.py <<'Y'
import os,sys,threading,ctypes
p,w,n=sys.argv[1],int(sys.argv[2]),int(sys.argv[3]); f=os.open(p,os.O_APPEND|os.O_CREAT|os.O_RDWR); c=ctypes.CDLL(None)
def go(t):
    for i in range(n):
        r=b'<%02d.%d.%05d'%(w,t,i); r+=b'x'*((i*37+w*11)%3000)+b'>\n'
        if i%3==2: k=os.writev(f,[r[:7],r[7:]])
        else: k=os.write(f,r)
        assert k==len(r)
        if i%50==0: os.fsync(f)
        if i%97==0: c.fallocate(f,1,ctypes.c_long(0),ctypes.c_long(1<<20))
        if i%31==0: os.fstat(f); os.pread(f,10,max(0,os.fstat(f).st_size-10))
ts=[threading.Thread(target=go,args=(t,)) for t in range(2)]; [t.start() for t in ts]; [t.join() for t in ts]
Y
cat >$T/c.py <<'Y'
import sys,re
d=open(sys.argv[1],'rb').read(); n=int(sys.argv[2]); L=d.split(b'\n'); assert L[-1]==b'',('tail',L[-1][:20]); got=set()
for l in L[:-1]:
    m=re.fullmatch(rb'<(\d\d)\.(\d)\.(\d{5})(x*)>',l); assert m,('torn',l[:40],l[-20:]); w,t,i=map(int,m.groups()[:3]); assert len(m[4])==(i*37+w*11)%3000; got.add((w,t,i))
assert len(got)==len(L)-1==8*2*n,(len(got),len(L)-1,8*2*n)
Y
for d in $M $M/wb; do for w in 1 2 3 4 5 6 7 8; do python3 $T/t.py $d/log $w 400 & done; wait; [ -s $T/err ] && wrong "writers: $(tail -1 $T/err)"
  python3 $T/c.py $d/log 400 || wrong "$d: $(tail -1 $T/err)"; done
$ZFS unmount $P/wb; $ZFS mount $P/wb; python3 $T/c.py $M/wb/log 400 || wrong "after a remount: $(tail -1 $T/err)"
python3 - $M <<'Y' || wrong "$(tail -1 $T/err)"
import os,sys,threading,ctypes
c=ctypes.CDLL(None); m=sys.argv[1]
for i in range(300):
    f=os.open(m+'/g',os.O_CREAT|os.O_RDWR|os.O_TRUNC); b=threading.Barrier(2)
    def a(): b.wait(); os.pwrite(f,b'z'*4096,4096)
    def g(): b.wait(); c.fallocate(f,0,ctypes.c_long(0),ctypes.c_long(4096))
    x=[threading.Thread(target=a),threading.Thread(target=g)]; [t.start() for t in x]; [t.join() for t in x]
    assert os.fstat(f).st_size==8192,(i,os.fstat(f).st_size); assert os.pread(f,8192,0)==bytes(4096)+b'z'*4096; os.close(f)
Y
right "12,800 records in two files, 300 races of fallocate and append"
