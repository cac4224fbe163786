#!/bin/bash
# What users use is counted right after receive, removal, chown, truncation and rollback: no underflow, and equal to a count anew.
. "$(dirname "$0")/common.bash"
chmod 755 $T; truncate -s 1G $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create
us() { $ZPOOL sync; $ZFS userspace -Hpn -o name,used,objused $1 | sort; $ZFS groupspace -Hpn -o name,used,objused $1 | sort; }
for u in 0 1001 1002 1003; do mkdir $M/d$u; for i in $(seq 30); do head -c $((i*3000)) /dev/urandom >$M/d$u/f$i; done; chown -R $u:$u $M/d$u; done; date >$M/x
$ZFS snapshot $P@1; $ZFS send $P@1 | $ZFS receive -F ${P}b || wrong "receive: $(tail -1 $T/err)"
[ "$(us $P)" = "$(us ${P}b)" ] || wrong "after receive: $(diff <(us $P) <(us ${P}b) | tr '\n' ' ')"
rm $T/n/x; chown -R 1002 $T/n/d1001/f1*; rm $T/n/d1002/f2*; truncate -s 0 $T/n/d1003/*; ln $T/n/d0/f1 $T/n/d0/l1; rm $T/n/d0/f1; cp -r $T/n/d0 $T/n/e; rm -r $T/n/d0
us ${P}b | awk '$2>1e15||$2<0||$3>1e15||$3<0{print}' >$T/u; [ -s $T/u ] && wrong "underflow: $(cat $T/u)"
$ZFS snapshot ${P}b@2; $ZFS send ${P}b@2 | $ZFS receive -o mountpoint=none ${P}b/again || wrong "second receive"
[ "$(us ${P}b)" = "$(us ${P}b/again)" ] || wrong "counted anew differs: $(diff <(us ${P}b) <(us ${P}b/again) | tr '\n' ' ')"
B=$(us ${P}b); rm -r $T/n/e $T/n/d1001; $ZFS rollback ${P}b@2 || wrong "rollback: $(tail -1 $T/err)"; [ "$(us ${P}b)" = "$B" ] || wrong "after rollback: $(diff <(us ${P}b) <(echo "$B") | tr '\n' ' ')"
rm -rf $T/n/*/; $ZPOOL sync ${P}b; us ${P}b | grep -vE '^0\b' >$T/u; [ -s $T/u ] && wrong "users without files still use: $(head -3 $T/u | tr '\n\t' '; ')"
$ZFS set userquota@1001=1M ${P}b; mkdir -m 777 $T/n/q; setpriv --reuid 1001 --clear-groups sh -c "date >$T/n/q/x" || wrong "a user with nothing is over quota"
right "equal to a count anew, and zero in the end"
