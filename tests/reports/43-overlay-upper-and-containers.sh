#!/bin/bash
# The upper directory of an overlay, as containers have it: whiteouts, opaque directories, renames, copy-up with attributes; podman with overlay and vfs.
. "$(dirname "$0")/common.bash"
truncate -s 4G $T/a; $ZPOOL create -m $M $P $T/a || wrong create; cd $M; mkdir lo up wk me; mkdir -p lo/d/e lo/x; echo l >lo/f; echo l >lo/d/g; setfattr -n user.k -v v lo/f; ln lo/f lo/h; ln -s f lo/s; dmesg -c >/dev/null 2>&1
mount -t overlay -o lowerdir=lo,upperdir=up,workdir=wk overlay me || wrong "mount: $(tail -1 $T/err)"
D=$(dmesg 2>/dev/null | grep -iE "overlayfs.*(not support|fail|missing)" | sed 's/.*overlayfs: //' | paste -sd';')
echo more >>me/f && [ "$(getfattr --only-values -n user.k me/f)" = v ] || wrong "copy-up"; [ "$(cat lo/f)" = l ] || wrong "lower changed"
rm me/d/g; [ -e me/d/g ] && wrong whiteout; [ -c up/d/g ] || wrong "no whiteout in the upper: $(ls -l up/d)"; rm -r me/d && mkdir me/d && [ -z "$(ls me/d)" ] || wrong "opaque directory: $(ls me/d; tail -1 $T/err)"
mv me/x me/y || O="rename of a lower directory: $(tail -1 $T/err);"; mv me/f me/f2 && [ ! -e me/f ] && [ "$(tail -1 me/f2)" = more ] || wrong "rename: $(tail -1 $T/err)"
sed -i s/l/q/ me/f2 && cp -a me/s me/s2 && touch me/n && mv -f me/n me/f2 || wrong "sed, mv: $(tail -1 $T/err)"; (cd me; mkdir t; for i in $(seq 500); do echo $i >t/$i; done; rm -rf t) && [ ! -e me/t ] || wrong "rm -rf"
python3 -c "
import os,ctypes; f=os.open('me',os.O_TMPFILE|os.O_RDWR); os.write(f,b'x'); assert 0==ctypes.CDLL(None).linkat(-100,b'/proc/self/fd/%d'%f,-100,b'me/tmpl',0x400)" || O="${O:-} O_TMPFILE through the overlay: $(tail -1 $T/err);"
umount me && mount -t overlay -o lowerdir=lo,upperdir=up,workdir=wk overlay me && [ -e me/f2 ] && [ -z "$(ls me/d)" ] || wrong "mounted again"; umount me
if command -v podman >/dev/null && [ -x /bin/busybox ]; then mkdir -p rootfs/bin rootfs/etc rootfs/tmp; cp /bin/busybox rootfs/bin/sh; cp /bin/busybox rootfs/bin/busybox; echo a >rootfs/etc/a; tar -C rootfs -cf img.tar .
  for drv in overlay vfs; do pm() { timeout 100 podman --root $M/pod$drv --runroot $T/prun$drv --storage-driver $drv --cgroup-manager cgroupfs "$@"; }
    pm import -q img.tar loc/img >/dev/null || { O="${O:-} podman $drv import: $(tail -1 $T/err);"; continue; }
    pm run --network none --cgroups disabled --ulimit nofile=1024:1024 --name c1 loc/img /bin/busybox sh -c 'busybox rm /etc/a; busybox mkdir /etc/n; for i in 1 2 3; do echo $i >/etc/n/$i; done; busybox mv /etc/n /etc/m' >/dev/null || { O="${O:-} podman $drv run: $(tail -1 $T/err | cut -c1-150);"; pm rm -af >/dev/null; continue; }
    pm diff c1 | grep -q "D /etc/a" || wrong "podman $drv diff: $(pm diff c1 | tr '\n' ';')"; pm commit -q c1 loc/two >/dev/null && [ "$(pm run --rm --network none --cgroups disabled --ulimit nofile=1024:1024 loc/two /bin/busybox ls /etc/m | tr '\n' ' ')" = "1 2 3 " ] || wrong "podman $drv: committed image: $(tail -1 $T/err)"
    pm rm -af >/dev/null && pm rmi -af >/dev/null || wrong "podman $drv rm: $(tail -1 $T/err)"; K="${K:-} podman $drv;"; umount $M/pod$drv/overlay 2>/dev/null; done; fi
right "overlay upper;${K:-} ${O:-} ${D:+kernel says: $D}"
