#!/bin/bash
# One of two names of a file is removed between a write and its fsync; the power goes: the bytes must be there by the other name.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create
python3 - $M $P <<'Y' || wrong "prepare: $(tail -1 $T/err)"
import os,sys
m=sys.argv[1]
for i in range(40):
    f=os.open(f'{m}/a{i}',os.O_CREAT|os.O_RDWR); os.write(f,b'old '*100); os.fsync(f); os.link(f'{m}/a{i}',f'{m}/b{i}'); os.close(f)
Y
$ZPOOL sync $P
python3 - $M <<'Y' || wrong "write: $(tail -1 $T/err)"
import os,sys
m=sys.argv[1]
for i in range(40):
    f=os.open(f'{m}/a{i}',os.O_RDWR); os.pwrite(f,b'NEW!'*(100+i*50),0)
    os.unlink(f'{m}/b{i}' if i%2 else f'{m}/a{i}'); os.fsync(f); os.close(f)
Y
kill -9 $($SAW daemon status --pid); $ZPOOL list $P >/dev/null || wrong "pool does not come back"
python3 - $M <<'Y' || wrong "after replay: $(tail -1 $T/err)"
import os,sys
m=sys.argv[1]
for i in range(40):
    keep,gone=(f'{m}/a{i}',f'{m}/b{i}') if i%2 else (f'{m}/b{i}',f'{m}/a{i}')
    d=open(keep,'rb').read(); assert d[:400+i*200]==b'NEW!'*(100+i*50),(i,d[:8],len(d))
    assert not os.path.exists(gone),('removed name is back',i); assert os.stat(keep).st_nlink==1
Y
right "40 files, each with its synced bytes by the name that was left"
