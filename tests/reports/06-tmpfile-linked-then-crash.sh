#!/bin/bash
# O_TMPFILE, write, fsync, linkat, fsync of the directory; crash: the file is there with its bytes.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create
$ZPOOL sync $P
python3 - $M <<'Y' || wrong "O_TMPFILE or linkat: $(tail -1 $T/err)"
import os,sys,ctypes
m=sys.argv[1]; c=ctypes.CDLL(None,use_errno=True); d=os.open(m,os.O_RDONLY)
for i in range(50):
    f=os.open(m,os.O_TMPFILE|os.O_RDWR,0o640); os.write(f,b'tmp%04d'%i*(i*100+1)); os.fsync(f)
    if c.linkat(-100,b'/proc/self/fd/%d'%f,-100,f'{m}/l{i}'.encode(),0x400): raise OSError(ctypes.get_errno(),'linkat')
    if i%2: os.pwrite(f,b'after',0); os.fsync(f)
    os.fsync(d)
    if i%10: os.close(f)
lost=os.open(m,os.O_TMPFILE|os.O_RDWR); os.write(lost,b'x'*1000000); os.fsync(lost)
Y
kill -9 $($SAW daemon status --pid); $ZPOOL list $P >/dev/null || wrong "pool does not come back"
python3 - $M <<'Y' || wrong "after replay: $(tail -1 $T/err)"
import os,sys
m=sys.argv[1]
for i in range(50):
    b=b'tmp%04d'%i*(i*100+1)
    if i%2: b=b'after'+b[5:]
    assert open(f'{m}/l{i}','rb').read()==b,i; assert os.stat(f'{m}/l{i}').st_nlink==1; assert os.stat(f'{m}/l{i}').st_mode&0o777==0o640
assert len(os.listdir(m))==50
Y
right "50 files linked from O_TMPFILE are there"
