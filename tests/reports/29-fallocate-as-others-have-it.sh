#!/bin/bash
# posix_fallocate on empty, shorter, equal and larger files, KEEP_SIZE, holes over the end, zeroed ranges: sizes and bytes as on ext4.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
truncate -s 300M $T/e; mkfs.ext4 -q $T/e; mkdir $T/x; mount -o loop $T/e $T/x || wrong "ext4"
cat >$T/t.py <<'Y'
import os,sys,random,ctypes,errno
c=ctypes.CDLL(None,use_errno=True); L=ctypes.c_long; r=random.Random(5); bad=[]
def fa(f,mode,o,n):
    return 0 if c.fallocate(f,mode,L(o),L(n))==0 else ctypes.get_errno()
A,B=sys.argv[1:3]; modes={0:'alloc',1:'keep',3:'punch',16:'zero',17:'zero keep',8:'collapse',32:'insert',64:'unshare'}; skip={}
def run(f,ops):
    out=[]
    for op in ops:
        if op[0]=='w': out.append(os.pwrite(f,op[1],op[2]))
        elif op[0]=='t': os.ftruncate(f,op[1]); out.append(0)
        elif op[0]=='p':
            try: os.posix_fallocate(f,op[1],op[2]); out.append(0)
            except OSError as e: out.append(e.errno)
        else: out.append(fa(f,op[1],op[2],op[3]))
    n=os.fstat(f).st_size; return out,n,os.pread(f,n,0)
for i in range(600):
    ops=[('w',r.randbytes(r.randrange(1,300000)),r.choice([0,r.randrange(200000)]))] if r.random()<.8 else []
    for _ in range(r.randrange(1,4)):
        k=r.random(); o,n=r.choice([0,4096,r.randrange(400000)]),r.choice([1,100,4096,65536,131072,r.randrange(1,500000),0 if r.random()<.3 else 5])
        if k<.2: ops.append(('p',o,max(n,1)))
        elif k<.3: ops.append(('t',o))
        else: ops.append(('f',r.choice([0,0,1,3,3,16,17,2,5,19]),o,n))
    fs=[os.open(f'{d}/f',os.O_CREAT|os.O_RDWR|os.O_TRUNC) for d in (A,B)]; x,y=[run(f,ops) for f in fs]; [os.close(f) for f in fs]
    if x[0]!=y[0]:
        k=[(ops[j][:4] if ops[j][0]!='w' else 'w',errno.errorcode.get(x[0][j],x[0][j]),errno.errorcode.get(y[0][j],y[0][j])) for j in range(len(ops)) if x[0][j]!=y[0][j]][0]
        skip.setdefault(str((k[0][0],k[0][1] if k[0][0]=='f' else '',k[1],k[2])),k); 
    elif x[1]!=y[1]: bad.append(f'size {x[1]} for {y[1]}: {[o if o[0]!="w" else ("w",len(o[1]),o[2]) for o in ops]}')
    elif x[2]!=y[2]: bad.append(f'bytes: {[o if o[0]!="w" else ("w",len(o[1]),o[2]) for o in ops]}')
f=os.open(A+'/g',os.O_WRONLY|os.O_CREAT)
for n in (100,100,50,200,131072,131072):
    try: os.posix_fallocate(f,0,n)
    except OSError as e: bad.append(f'posix_fallocate to {n} on a write-only file: {e}')
if bad: sys.stderr.write(f'{len(bad)} bad: '+'; '.join(bad[:2])+'\n'); sys.exit(1)
print('errors that differ from ext4 (op, mode, here, ext4):',list(skip)[:8])
Y
O=$(python3 $T/t.py $M $T/x) || wrong "$(tail -1 $T/err)"
right "600 lives; $O"
