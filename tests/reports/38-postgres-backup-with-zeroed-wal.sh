#!/bin/bash
# PostgreSQL with pre-zeroed WAL that has turned into holes: pg_basebackup, tar -S, a crash of server and daemon, checksums.
. "$(dirname "$0")/common.bash"
for PG in /usr/lib/postgresql/*/bin; do :; done; PATH=$PG:$PATH; [ -x $PG/initdb ] || wrong "PostgreSQL is missing"
truncate -s 4G $T/a; truncate -s 1G $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create; chmod 755 $T; U=nobody; S=$T/sock; mkdir -m 777 $S
$ZFS create -o recordsize=8k -o compression=lz4 $P/pg; $ZFS create -o recordsize=128k -o compression=lz4 $P/bk; chown $U $M/pg $M/bk; r() { setpriv --reuid $U --regid nogroup --clear-groups env PGHOST=$S HOME=$T PATH=$PATH "$@"; }
cd /; r initdb -k -D $M/pg/d >/dev/null || wrong "initdb: $(tail -1 $T/err)"
start() { r pg_ctl -D $1 -o "-k $S -h ''" -w -t 60 -l $S/log start >/dev/null || wrong "start: $(tail -2 $S/log | tr '\n' ' ')"; }
start $M/pg/d; r createdb b && r pgbench -i -q -s 10 b >/dev/null 2>&1 || wrong "pgbench -i"; r psql -qc "create table ack(n int primary key)" b
r pgbench -c 6 -T 20 -n b >/dev/null 2>&1 & sleep 2; r pg_basebackup -D $M/bk/tar -Ft -X fetch -c fast || wrong "pg_basebackup -Ft: $(tail -1 $T/err)"; r pg_basebackup -D $M/bk/plain -X stream -c fast || wrong "pg_basebackup: $(tail -1 $T/err)"
r pg_verifybackup -q $M/bk/plain || wrong "pg_verifybackup: $(tail -1 $T/err)"; mkdir $M/bk/x; tar -C $M/bk/x -xf $M/bk/tar/base.tar; cp $M/bk/tar/backup_manifest $M/bk/x; chown -R $U $M/bk/x; r pg_verifybackup -q $M/bk/x || wrong "verify of the tar: $(tail -1 $T/err)"; wait $(jobs -p)
r psql -qc "select pg_switch_wal()" b >/dev/null; W=$(ls $M/pg/d/pg_wal | grep -E '^[0-9A-F]{24}$' | head -1); tar -S -C $M/pg/d/pg_wal -cf $M/bk/wal.tar $W; tar -xOf $M/bk/wal.tar | cmp - $M/pg/d/pg_wal/$W || wrong "tar -S of a WAL segment"
# commits acknowledged, then daemon and server are killed
( for i in $(seq 100000); do r psql -qAtc "insert into ack values ($i)" b 2>/dev/null && echo $i >$S/n || break; done ) & PM=$(head -1 $M/pg/d/postmaster.pid); sleep 6; kill -9 $($SAW daemon status --pid); kill -9 $PM $(ps -o pid= --ppid $PM); wait; K=$(cat $S/n)
for i in 1 2 3; do $ZPOOL list $P >/dev/null && break; sleep 1; done; ls $M/pg/d >/dev/null || wrong "not mounted after the crash: $(tail -1 $T/err)"
for i in $(seq 20); do kill -0 $PM || break; sleep .5; done; rm -f $M/pg/d/postmaster.pid $S/.s.PGSQL.*; start $M/pg/d; [ "$(r psql -Atc "select max(n) from ack" b)" -ge $K ] || wrong "acknowledged $K, there: $(r psql -Atc 'select max(n) from ack' b)"
r pg_ctl -D $M/pg/d -m fast stop >/dev/null; r pg_checksums -c -D $M/pg/d >$T/k || wrong "pg_checksums: $(tail -1 $T/err)"
# recovery from the plain backup
start $M/bk/plain; [ "$(r psql -Atc 'select count(*) from pgbench_accounts' b)" = 1000000 ] || wrong "the backup's rows"; r pg_ctl -D $M/bk/plain -m fast stop >/dev/null
right "backups verified, $K commits there after the crash"
