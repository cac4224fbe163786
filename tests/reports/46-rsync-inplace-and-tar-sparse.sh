#!/bin/bash
# rsync --inplace, -S, --append-verify, -aHAX of sparse, changing and linked files; tar -S; df and du agree with what was written.
. "$(dirname "$0")/common.bash"
truncate -s 2G $T/a; $ZPOOL create -O compression=off -O acltype=posix -m $M $P $T/a || wrong create; mkdir $M/s $M/d; cd $M/s
truncate -s 300M sp; for i in 0 37 150 299; do dd if=/dev/urandom of=sp bs=1M seek=$i count=1 conv=notrunc; done; head -c 20M /dev/urandom >plain; ln plain hard; ln -s plain soft; setfattr -n user.q -v w plain; setfacl -m u:5:rw plain; mkfifo ff; mkdir -m 2770 dd; for i in $(seq 500); do head -c $i /dev/urandom >dd/$i; done
cp -al dd dl; head -c 5M /dev/zero >zeros; $ZPOOL sync
rsync -aHAXS ./ ../d/ || wrong "rsync -aHAXS: $(tail -1 $T/err)"; diff -r . ../d --no-dereference -x ff || wrong "first copy"; [ -z "$(rsync -aHAXSni ./ ../d/)" ] || wrong "second run copies: $(rsync -aHAXSni ./ ../d/ | head -3 | tr '\n' ' ')"
[ $(stat -c %h ../d/plain) = 2 ] && [ $(stat -c %h ../d/dd/7) = 2 ] || wrong "links"; $ZPOOL sync; [ $(du -k ../d/sp | cut -f1) -lt 6000 ] || O="the sparse copy takes $(du -k ../d/sp | cut -f1) KiB;"
for r in 1 2 3; do dd if=/dev/urandom of=plain bs=100k seek=$((r*13)) count=3 conv=notrunc; dd if=/dev/urandom of=sp bs=64k seek=$((r*900)) count=2 conv=notrunc; dd if=/dev/zero of=sp bs=1M seek=37 count=1 conv=notrunc; head -c 70000 /dev/urandom >>zeros; truncate -s -3000 plain
  rsync -aHAX --inplace --no-whole-file ./ ../d/ || wrong "--inplace: $(tail -1 $T/err)"; diff -r . ../d --no-dereference -x ff || wrong "round $r --inplace"; rsync -aHAXS --inplace --no-whole-file --checksum ./ ../d/ && diff -r . ../d --no-dereference -x ff || wrong "round $r -S --inplace"; done
head -c 100 /dev/urandom >>plain; rsync -a --append-verify plain ../d/ && cmp plain ../d/plain || wrong "--append-verify"
$ZFS snapshot $P@1; tar -S --xattrs --acls -cf ../t.tar . || wrong "tar: $(tail -1 $T/err)"; [ $(stat -c %s ../t.tar) -lt 60000000 ] || O="${O:-} tar -S of holes took $(stat -c %s ../t.tar) bytes;"; mkdir ../x; tar -C ../x --xattrs --acls -xf ../t.tar && diff -r . ../x --no-dereference -x ff || wrong "tar there and back"
tar -C .zfs/snapshot 2>/dev/null; (cd $M/.zfs/snapshot/1/s; tar -S -cf - .) | tar -C ../x -xf - && diff -r . ../x --no-dereference -x ff || wrong "tar of the snapshot"
cp -a --sparse=always . ../y && diff -r . ../y --no-dereference -x ff || wrong "cp -a --sparse"; dd if=sp of=../dds bs=64k conv=sparse && cmp sp ../dds || wrong "dd conv=sparse"
$ZPOOL sync; A=$(du -ks $M --exclude=.zfs | cut -f1); U=$($ZFS get -Hpo value referenced $P); [ $((A*1024)) -gt $((U*8/10)) ] && [ $((A*1024)) -lt $((U*12/10)) ] || O="${O:-} du says $A KiB, referenced $((U/1024)) KiB"
right "rsync, tar, cp, dd; ${O:-}"
