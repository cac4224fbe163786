#!/bin/bash
# A file system full to its quota, refquota or pool: files can be removed and truncated, many in one command, and datasets destroyed.
. "$(dirname "$0")/common.bash"
chmod 755 $T; truncate -s 600M $T/a; $ZPOOL create -m $M $P $T/a || wrong create
fill() { i=0; while head -c 1M /dev/urandom >$1/b$i; do i=$((i+1)); [ $i -gt 700 ] && return 1; done; j=0; while head -c 600 /dev/urandom >$1/s$j && [ $j -lt 3000 ]; do j=$((j+1)); done; while mkdir $1/d$j && [ $j -lt 6000 ]; do j=$((j+1)); done; true; }
for q in refquota quota user; do
  $ZFS create $P/q; case $q in user) chmod 777 $M/q; $ZFS set userquota@1001=60M $P/q;; *) $ZFS set $q=60M $P/q;; esac
  if [ $q = user ]; then setpriv --reuid 1001 --clear-groups bash -c "$(declare -f fill); fill $M/q" ; else fill $M/q; fi
  rm $M/q/b0 $M/q/b1 $M/q/b2 || wrong "$q: rm of three: $(tail -1 $T/err)"
  : >$M/q/b3 || wrong "$q: truncate: $(tail -1 $T/err)"
  rm -r $M/q/* || wrong "$q: rm of the rest: $(tail -1 $T/err)"
  for k in 1 2 3 4 5 6 7 8; do head -c 20M /dev/urandom >$M/q/again && break; sleep 1; done; [ $(stat -c %s $M/q/again) = 20971520 ] || wrong "$q: no room after all was removed"
  [ $k = 1 ] || L="${L:-} $q: room came after $k s;"
  $ZFS destroy -r $P/q || wrong "destroy"
done
$ZFS create $P/full; $ZFS create $P/other; fill $M/full
rm $M/full/b0 $M/full/b1 $M/full/b2 $M/full/b3 || wrong "full pool: rm: $(tail -1 $T/err)"
fill $M/full; $ZFS snapshot $P/full@s; $ZFS set org.x:y=z $P/full || L="${L:-} set of a property refused in a full pool;"
$ZFS destroy $P/other || wrong "full pool: destroy of an empty dataset: $(tail -1 $T/err)"
$ZFS destroy -r $P/full || wrong "full pool: destroy: $(tail -1 $T/err)"
for k in 1 2 3 4 5 6 7 8 9 10; do [ $($ZPOOL list -Hpo alloc $P) -lt 20000000 ] && break; sleep 1; done; [ $k -lt 10 ] || wrong "space does not come back"
right "removed at refquota, quota, userquota and full pool;${L:-}"
