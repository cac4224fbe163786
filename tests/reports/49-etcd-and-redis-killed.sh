#!/bin/bash
# etcd and Redis (AOF, always) on a pool with a log: daemon and servers killed, every acknowledged key is there; no warnings of slow fsync on an idle machine.
. "$(dirname "$0")/common.bash"
command -v etcd >/dev/null && command -v redis-server >/dev/null || wrong "etcd or Redis is missing"; truncate -s 2G $T/a; truncate -s 256M $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create; R=$((20000+$$%20000)); export ETCDCTL_API=3
E="http://127.0.0.1:$R"; ce() { etcdctl --endpoints $E "$@"; }
ge() { etcd --data-dir $M/etcd --listen-client-urls $E --advertise-client-urls $E --listen-peer-urls http://127.0.0.1:$((R+1)) --initial-advertise-peer-urls http://127.0.0.1:$((R+1)) --initial-cluster default=http://127.0.0.1:$((R+1)) >>$T/etcd.log 2>&1 & EP=$!; for i in $(seq 60); do ce endpoint health >/dev/null 2>&1 && return; sleep .5; done; wrong "etcd does not start: $(tail -2 $T/etcd.log | tr '\n' ' ' | cut -c1-300)"; }
gr() { redis-server --port 0 --unixsocket $T/rs --dir $M/redis --appendonly yes --appendfsync always --save "3 1" >>$T/redis.log 2>&1 & RP=$!; for i in $(seq 60); do redis-cli -s $T/rs ping 2>/dev/null | grep -q PONG && return; sleep .5; done; wrong "Redis does not start: $(tail -1 $T/redis.log)"; }
mkdir $M/redis; for r in 1 2 3; do ge; gr
  ( i=0; while ce put k$r.$i v$i >/dev/null 2>&1; do echo $i >$T/ne; i=$((i+1)); done ) & A=$!
  python3 - $T/rs $T/nr $r <<'Y' &
import socket,sys
s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); n=0; a=open(sys.argv[2],'w'); s.settimeout(5)
try:
    while True:
        k=f'k{sys.argv[3]}.{n}'; v='v%d'%n*(n%300+1); s.sendall(f'*3\r\n$3\r\nSET\r\n${len(k)}\r\n{k}\r\n${len(v)}\r\n{v}\r\n'.encode()); d=s.recv(100)
        if d!=b'+OK\r\n': break
        a.seek(0); a.write(str(n)); a.flush(); n+=1
except Exception: pass
Y
  sleep 6; kill -9 $($SAW daemon status --pid); kill -9 $EP $RP; kill $A; wait; NE=$(cat $T/ne) NR=$(cat $T/nr); $ZPOOL list $P >/dev/null || wrong "pool does not come back"; ls $M/redis >/dev/null || wrong "not mounted"
  ge; gr; for k in 0 $((NE/2)) $NE; do [ "$(ce get --print-value-only k$r.$k)" = v$k ] || wrong "round $r: etcd lost k$r.$k of $NE"; done
  for k in 0 $((NR/2)) $((NR-1)) $NR; do redis-cli -s $T/rs get k$r.$k | grep -q "v$k" || wrong "round $r: Redis lost k$r.$k of $NR"; done; L="${L:-} etcd $NE, Redis $NR;"; kill $EP $RP; wait; done
W=$(grep -cE "slow fdatasync|took too long" $T/etcd.log); redis-check-aof $M/redis/appendonlydir/*.manifest >/dev/null 2>&1 || O="redis-check-aof: $(redis-check-aof $M/redis/appendonlydir/*.manifest 2>&1 | tail -1)"
right "$L $W warnings of etcd; ${O:-}"
