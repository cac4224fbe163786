#!/bin/bash
# df, available and quotas agree; a receive into a pool without room, a rollback and a snapshot at the quota: said so, undone, and room afterwards.
. "$(dirname "$0")/common.bash"
truncate -s 400M $T/a; truncate -s 1G $T/b; $ZPOOL create -O compression=off -m $M $P $T/a && $ZPOOL create -O compression=off -m $T/n ${P}b $T/b || wrong create
$ZFS create -o quota=100M $P/q; $ZFS create -o refquota=50M $P/q/r; $ZFS create -o reservation=60M $P/res; $ZFS create -o refreservation=40M $P/rr
cmp_df() { $ZPOOL sync; read -r s u a <<<"$(df -B1 --output=size,used,avail $1 | tail -1)"; V=$($ZFS get -Hpo value available $2); F=$($ZFS get -Hpo value referenced $2); [ $a -ge 0 ] && [ $u -ge 0 ] && [ $((a>V?a-V:V-a)) -lt 2000000 ] && [ $((u>F?u-F:F-u)) -lt 2000000 ] && [ $((s-u-a)) -lt 2000000 ] || wrong "df $1: $s $u $a, available $V referenced $F"; }
head -c 20M /dev/urandom >$M/q/f; head -c 30M /dev/urandom >$M/q/r/f; for d in q q/r res rr; do cmp_df $M/$d $P/$d; done; $ZFS snapshot $P/q/r@1; head -c 30M /dev/urandom >$M/q/r/f || wrong "overwrite within the quota"; cmp_df $M/q/r $P/q/r
head -c 60M /dev/urandom >$M/q/r/g && wrong "refquota does not hold"; $ZPOOL sync; [ $($ZFS get -Hpo value referenced $P/q/r) -lt 56000000 ] || wrong "refquota passed by $($ZFS get -Hpo value referenced $P/q/r)"; $ZFS rollback $P/q/r@1 || wrong "rollback at the refquota: $(tail -1 $T/err)"
$ZFS set quota=200M $P/q; $ZFS set refquota=20M $P/q/r && wrong "a refquota below what is used was taken" ; [ "$(stat -fc %b $M/q/r)" -gt 0 ] || wrong "statfs"; $ZFS snapshot $P/res@s && $ZFS rollback $P/res@s || wrong "rollback with a reservation"
# a stream that does not fit
head -c 600M /dev/urandom >$T/n/big; echo x >$T/n/x; $ZFS snapshot ${P}b@1; B=$($ZPOOL list -Hpo alloc $P); $ZFS send ${P}b@1 | $ZFS receive $P/in && wrong "600M into a 400M pool"; grep -qiE "out of space|no space" $T/err || O="words: $(tail -1 $T/err);"; $ZFS list $P/in 2>/dev/null && wrong "a part of it is listed"
for k in 1 2 3 4 5 6 7 8 9 10; do [ $($ZPOOL list -Hpo alloc $P) -lt $((B+20000000)) ] && break; sleep 1; done; [ $k -lt 10 ] || wrong "its space does not come back: $B -> $($ZPOOL list -Hpo alloc $P)"
$ZFS send ${P}b@1 | $ZFS receive -s $P/in && wrong; K=$($ZFS get -Ho value receive_resume_token $P/in); [ "${#K}" -gt 20 ] || O="${O:-} -s keeps no token ($K);"; : >$M/q/small 2>/dev/null; head -c 1000 /dev/urandom >$M/rr/in || wrong "what was reserved is not there"; head -c 30M /dev/urandom >$M/rr/in2 || wrong "refreservation does not hold: $(tail -1 $T/err)"
$ZFS receive -A $P/in || $ZFS destroy -r $P/in || wrong "the part cannot be given up: $(tail -1 $T/err)"; $ZPOOL sync; for k in 1 2 3 4 5 6 7 8; do head -c 50M /dev/urandom >$M/q/again && break; sleep 1; done; [ $(stat -c %s $M/q/again) = 52428800 ] || wrong "no room after -A"
# snapshots that hold everything
$ZFS create $P/s; while head -c 15M /dev/urandom >$M/s/f && $ZFS snapshot $P/s@$((i=${i:-0}+1)); do [ $i -gt 40 ] && break; done; cmp_df $M/s $P/s; rm -f $M/s/f; touch $M/s/t || wrong "not even a name: $(tail -1 $T/err)"; $ZFS destroy $P/s@1%$i || wrong "destroy of snapshots of a full pool: $(tail -1 $T/err)"; $ZPOOL sync; sleep 3; head -c 40M /dev/urandom >$M/s/f || wrong "no room after the snapshots went"
right "df agrees, refusals undone; ${O:-}"
