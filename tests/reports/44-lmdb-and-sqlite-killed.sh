#!/bin/bash
# LMDB by a writable map and SQLite in WAL with maps: the daemon is killed while they commit; every acknowledged transaction is there, the files are whole.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; truncate -s 256M $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create; $ZFS create -o recordsize=4k $P/d
# With synchronous=full SQLite does not sync the removal of a journal, which is the commit.
cat >$T/w.py <<'Y'
import sys,os,sqlite3,time
kind,d,ack=sys.argv[1:4]; a=open(ack,'w'); n=0
def ok():
    a.seek(0); a.write(str(n)); a.flush()
try:
    if kind.startswith('lmdb'):
        import lmdb
        e=lmdb.open(f'{d}/{kind}',map_size=200<<20,writemap=kind=='lmdbw',map_async=False)
        while True:
            n+=1
            with e.begin(write=True) as t: t.put(b'%08d'%n,b'v%d'%n*(1+n%700)); t.delete(b'%08d'%(n-200)); t.put(b'last',b'%d'%n)
            ok()
    else:
        c=sqlite3.connect(f'{d}/{kind}.db',isolation_level=None); c.execute('pragma journal_mode='+('wal' if kind=='sqlw' else 'delete')); c.execute('pragma synchronous='+('full' if kind=='sqlw' else 'extra')); c.execute('pragma mmap_size=100000000'); c.execute('create table if not exists t(n integer primary key,v text)')
        while True: n+=1; c.execute('insert or replace into t values(?,?)',(n,'v'*(n%3000))); ok()
except (Exception,KeyboardInterrupt) as x: sys.stderr.write(f'{kind}: {x}\n'); os._exit(0)
Y
cat >$T/c.py <<'Y'
import sys,sqlite3
kind,d,ack=sys.argv[1:4]; n=int(open(ack).read() or 0); assert n>20,('only',n)
if kind.startswith('lmdb'):
    import lmdb
    e=lmdb.open(f'{d}/{kind}',map_size=200<<20,writemap=kind=='lmdbw')
    with e.begin() as t:
        l=int(t.get(b'last')); assert l>=n,(l,n)
        for k in range(max(1,l-199),l+1): assert t.get(b'%08d'%k)==b'v%d'%k*(1+k%700),k
        assert sum(1 for _ in t.cursor())==min(l,200)+1
else:
    c=sqlite3.connect(f'{d}/{kind}.db'); assert c.execute('pragma integrity_check').fetchone()[0]=='ok'; k=c.execute('select max(n),count(*) from t').fetchone(); assert k[0]>=n and k[0]==k[1],(k,n)
print(n)
Y
for r in 1 2 3; do rm -rf $M/d/* $T/ack*; Q=; for k in lmdb lmdbw sqlw sqld; do python3 $T/w.py $k $M/d $T/ack$k & Q="$Q $!"; done
  for i in $(seq 100); do sleep .5; [ $(for k in lmdb lmdbw sqlw sqld; do cat $T/ack$k 2>/dev/null; echo; done | awk '$1>40' | wc -l) = 4 ] && break; done; sleep .$r; kill -9 $($SAW daemon status --pid); sleep 1; kill -9 $Q; wait; $ZPOOL list $P >/dev/null || wrong "pool does not come back"; ls $M/d >/dev/null || wrong "not mounted: $(tail -1 $T/err)"
  for k in lmdb lmdbw sqlw sqld; do L="${L:-} $k $(python3 $T/c.py $k $M/d $T/ack$k)" || wrong "round $r, $k: $(tail -1 $T/err)"; done; done
right "three kills:$L"
