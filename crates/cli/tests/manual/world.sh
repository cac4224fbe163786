# A machine for the examples of one page: world.sh DIRECTORY PROGRAM
#
# DIRECTORY is empty but for `steps`, and becomes the root directory of this process and of its children.
# Namespaces of mounts and of processes are already private: everything that is mounted here disappears
# with the last process.
#
#   usr, sys, bin, lib ...        the host's
#   etc                           the host's, and changes are private
#   dev/null, dev/fuse ...        the host's
#   dev/sda to dev/sdl            sparse files of 512 MiB
#   dev/nvme0n1, dev/nvme1n1      the same
#   proc                          of the private namespace of processes
#   opt/bin                       PROGRAM as sawmill, zpool, zfs, zed, zilstat and zinject
#   home/joe                      of the user joe, who exists here only
#   steps/N, shown/N, code/N      a command, its output, its exit code
set -eu
root=$1 program=$2

bind() { mount --rbind "$1" "$2"; }

mkdir -p "$root"/{usr,etc,sys,proc,dev,tmp,run,root,opt/bin,home/joe,var/lib,shown,code}
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for name in usr etc sys; do bind "/$name" "$root/$name"; done
mkdir "$root"/tmp/{etc,work}
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$root/tmp/etc,workdir=$root/tmp/work" "$root/etc"
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$name" ]; then
        cp -P "/$name" "$root/$name"
    elif [ -d "/$name" ]; then
        mkdir "$root/$name"
        bind "/$name" "$root/$name"
    fi
done
mount -t proc proc "$root/proc"
for name in null zero full random urandom tty fuse; do
    [ -e "/dev/$name" ] || continue
    touch "$root/dev/$name"
    bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
for name in sda sdb sdc sdd sde sdf sdg sdh sdi sdj sdk sdl nvme0n1 nvme1n1; do truncate -s 512M "$root/dev/$name"; done

touch "$root/opt/bin/sawmill"
bind "$program" "$root/opt/bin/sawmill"
for name in zpool zfs zed zilstat zinject; do ln -s sawmill "$root/opt/bin/$name"; done

{ cat /etc/passwd; echo 'joe:x:4242:4242::/home/joe:/bin/sh'; } >"$root/tmp/passwd"
bind "$root/tmp/passwd" "$root/etc/passwd"
chown 4242:4242 "$root/home/joe"

exec chroot "$root" /usr/bin/env -i PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C TZ=UTC \
    ZPOOL_IMPORT_PATH=/dev SAWMILL_MEMORY=128m bash -c '
    cd /root
    for step in $(ls /steps | sort -n); do
        timeout 60 bash /steps/$step </dev/null >/shown/$step 2>&1 && code=0 || code=$?
        echo $code >/code/$step
    done
    timeout 60 sawmill daemon stop || true
'
