#!/bin/bash
# qemu-img on raw and qcow2 images with cache=none, aio=native and io_uring, discards and conversions; loop devices with direct I/O and a file system on them.
. "$(dirname "$0")/common.bash"
command -v qemu-img >/dev/null || wrong "qemu-img is missing"; truncate -s 3G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
for rs in 128k 16k; do $ZFS create -o recordsize=$rs $P/v; cd $M/v; head -c 120M /dev/urandom >src; truncate -s 400M src; dd if=/dev/urandom of=src bs=1M seek=350 count=10 conv=notrunc
for t in none writeback directsync; do for fmt in raw qcow2; do qemu-img convert -t $t -T $t -f raw -O $fmt -W -m 8 src i.$fmt || wrong "convert to $fmt, cache=$t: $(tail -1 $T/err)"; qemu-img compare -T none -f raw -F $fmt src i.$fmt >/dev/null || wrong "compare $fmt cache=$t"; rm i.$fmt; done; done
qemu-img convert -f raw -O raw src b.raw; for i in native io_uring threads; do for w in "-w --pattern=90" "-w --flush-interval=64 --pattern=91" ""; do qemu-img bench -f raw -t none -i $i -c 3000 -d 32 -s 16384 -S 20480 $w b.raw >/dev/null || wrong "bench aio=$i $w: $(tail -1 $T/err)"; done; done
qemu-io -f raw -t none -n -c 'write -P 7 0 64k' -c 'aio_write -P 8 1M 512k' -c aio_flush -c 'discard 64k 192k' -c 'write -z 2M 1M' -c 'write -z -u 5M 1M' -c 'read -P 7 0 64k' -c 'read -P 8 1M 512k' -c 'read -P 0 2M 1M' -c 'read -P 0 5M 1M' -c flush b.raw >$T/q || wrong "qemu-io: $(tail -1 $T/err)"; grep -iE "failed|mismatch|error" $T/q && wrong "qemu-io: $(grep -iE 'failed|mismatch|error' $T/q | head -1)"
qemu-io -f raw -t none -c 'aio_write -P 3 512 512' -c 'aio_write -P 4 1024 512' -c aio_flush -c 'read -P 3 512 512' -c 'read -P 4 1024 512' b.raw >$T/q || wrong "512-byte direct I/O: $(tail -1 $T/q)"; grep -iE "failed|mismatch|error" $T/q && wrong "512-byte direct I/O"
python3 - <<'Y' || wrong "io: $(tail -1 $T/err)"
import os,mmap
f=os.open('o',os.O_CREAT|os.O_RDWR|os.O_DIRECT); b=mmap.mmap(-1,1<<20); b[:]=b'd'*(1<<20); assert os.pwritev(f,[b],0)==1<<20; g=os.open('o',os.O_RDWR); os.pwrite(g,b'B'*100,5000); c=mmap.mmap(-1,8192); assert os.preadv(f,[c],0)==8192; assert c[5000:5100]==b'B'*100,'direct read of what was just written by buffer'
m=mmap.mmap(g,1<<20); m[9000:9004]=b'MMAP'; assert os.preadv(f,[c],8192)==8192 and c[808:812]==b'MMAP','direct read of what a map holds'; b[:8192]=b'E'*8192; os.pwritev(f,[memoryview(b)[:8192]],0); assert m[5000:5004]==b'EEEE' and os.pread(g,4,5000)==b'EEEE','map after a direct write'
Y
truncate -s 400M l.img; L=$(losetup -f --show --direct-io=on l.img) || { L=$(losetup -f --show l.img); O="${O:-} no direct I/O on loop devices;"; }; mkfs.ext4 -q $L && mkdir -p $T/lo && mount -o discard $L $T/lo && cp -r /usr/share/doc/git* $T/lo; head -c 50M /dev/urandom >$T/lo/x; H=$(md5sum <$T/lo/x); rm $T/lo/x; head -c 60M /dev/urandom >$T/lo/y; H=$(md5sum <$T/lo/y); fstrim $T/lo || O="${O:-} fstrim: $(tail -1 $T/err);"
umount $T/lo && losetup -d $L; e2fsck -fn l.img >/dev/null || wrong "ext4 in an image: $(e2fsck -fn l.img | tail -1)"; $ZPOOL sync; D1=$(du -m l.img | cut -f1); mount -o loop,ro l.img $T/lo && [ "$(md5sum <$T/lo/y)" = "$H" ] || wrong "y in the image"; umount $T/lo; O="${O:-} image takes ${D1}M;"
cd /; $ZFS destroy -r $P/v || { sleep 2; $ZFS destroy -r $P/v || wrong "destroy: $(tail -1 $T/err)"; }; done
right "raw and qcow2, native and io_uring;$O"
