#!/bin/bash
# MariaDB with O_DIRECT, native AIO by libaio or io_uring, doublewrite and without; load, kill of daemon and server, recovery, CHECK TABLE.
. "$(dirname "$0")/common.bash"
command -v mariadbd >/dev/null || wrong "MariaDB is missing"; truncate -s 3G $T/a; truncate -s 512M $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create; chmod 755 $T; mkdir -m 777 $T/so
U=nobody; for fl in O_DIRECT fsync; do for aio in 1 0; do
  $ZFS create -o recordsize=16k $P/my; D=$M/my/d; chown $U $M/my; S=$T/so/$fl$aio
  opt="--no-defaults --datadir=$D --user=$U --socket=$S --skip-networking --pid-file=$T/so/pid --innodb-flush-method=$fl --innodb-use-native-aio=$aio --innodb-log-file-size=48M --innodb-buffer-pool-size=64M --innodb-doublewrite=$aio --log-error=$M/my/err.log --tmpdir=$M/my --lc-messages-dir=/usr/share/mysql"
  mariadb-install-db $opt --auth-root-authentication-method=normal --skip-test-db >/dev/null || wrong "$fl aio=$aio: install: $(tail -1 $T/err) $(tail -1 $M/my/err.log)"
  go() { rm -f $T/so/pid; mariadbd $opt & MP=$!; for i in $(seq 60); do mariadb --no-defaults -S $S -uroot -e 'select 1' >/dev/null 2>&1 && return; kill -0 $MP 2>/dev/null || break; sleep .5; done; wrong "$fl aio=$aio: does not start: $(grep -iE 'error|assert' $M/my/err.log | tail -1)"; }
  q() { mariadb --no-defaults -S $S -uroot -N -B -e "$1" t; }; go; mariadb --no-defaults -S $S -uroot -e 'create database t'
  q 'create table a(n int primary key, v varchar(4000), key(v(20))) engine=innodb; create table c(n int primary key)'; A=$(q "select @@innodb_use_native_aio"); [ $aio = $A ] || O="${O:-} native AIO wanted $aio, used $A;"
  for i in $(seq 12); do q "insert into a select seq, repeat(md5(seq), 1+seq%100) from seq_$((i*1000))_to_$((i*1000+999))"; done || wrong "$fl aio=$aio: insert: $(tail -1 $T/err)"
  ( i=0; while q "insert into c values ($((i+1))); update a set v=reverse(v) where n%97=$((i%97))" 2>/dev/null; do i=$((i+1)); echo $i >$T/n; done ) & sleep 5
  kill -9 $($SAW daemon status --pid); kill -9 $MP; wait; K=$(cat $T/n); $ZPOOL list $P >/dev/null; ls $D >/dev/null || wrong "not mounted: $(tail -1 $T/err)"
  go; [ "$(q 'select max(n) from c')" -ge "$K" ] || wrong "$fl aio=$aio: acknowledged $K, there $(q 'select max(n) from c')"; q 'check table a, c extended' | grep -vw OK >$T/bad; [ -s $T/bad ] && wrong "$fl aio=$aio: $(head -2 $T/bad)"
  [ "$(q 'select count(*) from a')" = 12000 ] || wrong "rows"; grep -iE "\[error\]|corrupt" $M/my/err.log >$T/e2 && O="${O:-} $fl $aio log: $(tail -1 $T/e2 | cut -c1-100);"; kill $MP; wait $MP; for i in 1 2 3 4 5 6; do $ZFS destroy -r $P/my && break; sleep 1; done; L="${L:-} $fl/$aio $K"
done; done
right "acknowledged and there:$L;${O:-}"
