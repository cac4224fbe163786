#!/bin/bash
# Extended attributes and ACLs that were synced with their file survive a crash, with xattr=sa and xattr=dir.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/l; $ZPOOL create -m $M $P $T/a log $T/l || wrong create
$ZFS create -o xattr=sa -o acltype=posix $P/sa && $ZFS create -o xattr=dir -o acltype=posix $P/dir || wrong "create datasets"
for d in sa dir; do for i in $(seq 30); do echo x >$M/$d/f$i; done; mkdir $M/$d/sub; done; $ZPOOL sync $P
python3 - $M <<'Y' || wrong "set: $(tail -1 $T/err)"
import os,sys,subprocess
m=sys.argv[1]
for d in ('sa','dir'):
    for i in range(1,31):
        p=f'{m}/{d}/f{i}'
        os.setxattr(p,'user.big',bytes([65+i%26])*(i*700)); os.setxattr(p,'user.a',b'1'); os.setxattr(p,'user.a',b'two'); os.setxattr(p,'user.c',b'3'); os.removexattr(p,'user.c')
        if i%3==0: subprocess.check_call(['setfacl','-m','u:33:rwx,g:44:r',p])
        f=os.open(p,os.O_RDWR); os.fsync(f); os.close(f)
    s=f'{m}/{d}/sub'; os.setxattr(s,'user.d',b'dir'); subprocess.check_call(['setfacl','-d','-m','u:33:rwx',s]); f=os.open(s,os.O_RDONLY); os.fsync(f); os.close(f)
Y
kill -9 $($SAW daemon status --pid); $ZPOOL list $P >/dev/null || wrong "pool does not come back"
python3 - $M <<'Y' || wrong "after replay: $(tail -1 $T/err)"
import os,sys,subprocess
m=sys.argv[1]
for d in ('sa','dir'):
    for i in range(1,31):
        p=f'{m}/{d}/f{i}'
        assert os.getxattr(p,'user.big')==bytes([65+i%26])*(i*700),(p,'big'); assert os.getxattr(p,'user.a')==b'two',p
        assert 'user.c' not in os.listxattr(p),(p,'removed attribute is back')
        if i%3==0: assert b'user:www-data:rwx' in subprocess.check_output(['getfacl','-p',p]).replace(b'user:33:',b'user:www-data:'),(p,'acl')
    s=f'{m}/{d}/sub'; assert os.getxattr(s,'user.d')==b'dir'; assert b'default:user:' in subprocess.check_output(['getfacl','-p',s])
Y
right "60 files and 2 directories with all that was synced"
