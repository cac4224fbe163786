#!/bin/bash
# Devices that grow under an open pool: EXPANDSZ tells so, online -e or autoexpand takes it, nothing is left over, mirrors wait for both halves.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/b $T/c; $ZPOOL create -m $M $P mirror $T/a $T/b || wrong create; echo x >$M/x
e() { $ZPOOL list -Hpo expandsize $P; }; z() { $ZPOOL list -Hpo size $P; }; S0=$(z)
[ "$(e)" = - ] || wrong "EXPANDSZ of a new pool is $(e)"; truncate -s 1G $T/a $T/b; $ZPOOL online $P $T/a; $ZPOOL reopen $P; [ $(z) = $S0 ] || wrong "grew without -e, autoexpand=off"
[ "$(e)" != - ] || O="EXPANDSZ says nothing of 512M more;"
$ZPOOL online -e $P $T/a || wrong "online -e: $(tail -1 $T/err)"; $ZPOOL online -e $P $T/b || wrong "online -e b"; S1=$(z); [ $S1 -gt $((S0*19/10)) ] || wrong "size after -e: $S0 -> $S1"; [ "$(e)" = - ] || [ "$(e)" = 0 ] || wrong "EXPANDSZ after -e: $(e)"
$ZPOOL set autoexpand=on $P; truncate -s 2G $T/a $T/b; $ZPOOL reopen $P; for i in 1 2 3 4 5; do [ $(z) -gt $((S1*19/10)) ] && break; sleep 1; done; [ $(z) -gt $((S1*19/10)) ] || { $ZPOOL export $P; $ZPOOL import -d $T $P; O="${O:-} autoexpand needs an import;"; }; [ $(z) -gt $((S1*19/10)) ] || wrong "autoexpand=on: $S1 -> $(z)"
# replaced one by one with larger ones
truncate -s 4G $T/n1 $T/n2; S2=$(z); $ZPOOL replace -w $P $T/a $T/n1 && [ $(z) = $S2 ] && $ZPOOL replace -w $P $T/b $T/n2 || wrong "replace: $(tail -1 $T/err) $(z)"; for i in 1 2 3 4 5; do [ $(z) -gt $((S2*19/10)) ] && break; sleep 1; done; [ $(z) -gt $((S2*19/10)) ] || wrong "after both halves were replaced: $S2 -> $(z), EXPANDSZ $(e)"
[ "$(e)" = - ] || [ "$(e)" = 0 ] || wrong "EXPANDSZ at the end: $(e)"; head -c 100M /dev/urandom >$M/big; $ZPOOL export $P && $ZPOOL import -d $T $P && [ -e $M/x ] || wrong import
$ZPOOL export $P; truncate -s 3G $T/n1; $ZPOOL import -d $T $P && { $ZPOOL status $P | grep -q "n1 .*ONLINE" && wrong "a device that shrank below its size counts as online"; }
Z=${ZDB:-/usr/sbin/zdb}; $ZPOOL export $P; [ -x $Z ] && { FAKETIME="+0 x100" LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1 timeout 200 $Z -e -p $T -bcc $P >$T/zz || O="${O:-} zdb: $(tail -1 $T/zz)"; }
right "512M, 1G, 2G, 4G; ${O:-}"
