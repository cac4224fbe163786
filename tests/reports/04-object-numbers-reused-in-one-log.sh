#!/bin/bash
# Files made, synced, removed, and others made in their place within one txg: replay must give each what was synced.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create
$ZPOOL sync $P
python3 - $M <<'Y' || wrong "write: $(tail -1 $T/err)"
import os,sys
m=sys.argv[1]; d=os.open(m,os.O_RDONLY)
def put(n,b):
    f=os.open(f'{m}/{n}',os.O_CREAT|os.O_RDWR|os.O_TRUNC); os.write(f,b); os.fsync(f); os.close(f)
for i in range(300):
    put(f't{i}',b'gone%05d'%i*300)
    if i%3==0: os.mkdir(f'{m}/d{i}'); os.rmdir(f'{m}/d{i}')
    if i%5==0: os.symlink('x',f'{m}/s{i}'); os.unlink(f'{m}/s{i}')
    if i%2: os.unlink(f'{m}/t{i}'); put(f'k{i}',b'keep%05d'%i*(1+i))
    else: put(f'n{i}',b'rena%05d'%i*(1+i)); os.rename(f'{m}/n{i}',f'{m}/t{i}')
    os.fsync(d)
Y
kill -9 $($SAW daemon status --pid); $ZPOOL list $P >/dev/null || wrong "pool does not come back"
python3 - $M <<'Y' || wrong "after replay: $(tail -1 $T/err)"
import os,sys
m=sys.argv[1]; want={}
for i in range(300):
    if i%2: want[f'k{i}']=b'keep%05d'%i*(1+i)
    else: want[f't{i}']=b'rena%05d'%i*(1+i)
have=set(os.listdir(m)); assert have==set(want),sorted(have^set(want))[:5]
for n,b in want.items(): assert open(f'{m}/{n}','rb').read()==b,n
Y
$ZPOOL status $P | grep -q "No known data errors" || wrong "status tells of errors"
right "300 names, each with what was synced last"
