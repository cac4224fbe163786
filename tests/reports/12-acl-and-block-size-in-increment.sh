#!/bin/bash
# A small file with a large ACL and attributes grows by an increment: the receiver keeps the ACL and the attributes.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create
for dn in legacy auto; do for fl in "" "-Lec"; do
  $ZFS create -o acltype=posix -o xattr=sa -o dnodesize=$dn $P/s && for i in $(seq 20); do
    f=$M/s/f$i; head -c 4096 /dev/urandom >$f; setfacl -m $(seq -s, -f 'u:%g:rwx' 1000 $((1000+i*2))) $f; setfattr -n user.x -v "$(head -c 300 /dev/zero | tr '\0' a)$i" $f; done
  $ZFS snapshot $P/s@1; $ZFS send $fl $P/s@1 | $ZFS receive -o acltype=posix ${P}b/r || wrong "full: $(tail -1 $T/err)"
  for i in $(seq 20); do f=$M/s/f$i; case $((i%4)) in 0) head -c 4096 /dev/urandom >>$f;; 1) truncate -s 100 $f;; 2) head -c 300000 /dev/urandom >>$f;; 3) setfattr -n user.y -v late $f;; esac; done
  rm $M/s/f20; head -c 5000 /dev/urandom >$M/s/new; $ZFS snapshot $P/s@2
  $ZFS send $fl -i @1 $P/s@2 | $ZFS receive -F ${P}b/r || wrong "increment: $(tail -1 $T/err)"
  (cd $M/s; getfacl -R -n . ; getfattr -R -d . ; cksum *) >$T/1; (cd $T/n/r; getfacl -R -n .; getfattr -R -d .; cksum *) >$T/2
  cmp $T/1 $T/2 || wrong "dnodesize=$dn '$fl': $(diff $T/1 $T/2 | head -3 | tr '\n' ' ')"
  grep -q user:1002 $T/2 || wrong "no ACLs at all"
  $ZFS destroy -r $P/s; $ZFS destroy -r ${P}b/r
done; done
right "20 files of four kinds equal"
