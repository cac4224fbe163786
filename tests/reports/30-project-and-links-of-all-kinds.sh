#!/bin/bash
# In a directory whose project is handed on: ln -sfn, rename of links, fifos and sockets within it work, and count to the project.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; mkdir $M/d $M/other
chattr -p 3 +P $M/d || $ZFS project -s -p 3 $M/d || wrong "no projects: $(tail -1 $T/err)"; mkdir $M/d/sub; chattr -p 4 +P $M/other
ln -s a $M/d/l && ln -sfn b $M/d/l || wrong "ln -sfn: $(tail -1 $T/err)"; mv -T $M/d/l $M/d/l2 || wrong "rename of a symbolic link: $(tail -1 $T/err)"
mkfifo $M/d/fifo && mv $M/d/fifo $M/d/fifo2 || wrong "fifo: $(tail -1 $T/err)"; mknod $M/d/dev c 1 3 && mv $M/d/dev $M/d/sub/dev2 || wrong "device: $(tail -1 $T/err)"
python3 - $M/d <<'Y' || wrong "$(tail -1 $T/err)"
import os,sys,socket
d=sys.argv[1]; s=socket.socket(socket.AF_UNIX); s.bind(d+'/sock')
for i in range(50):
    open(f'{d}/n{i}','w').write('x'*5000)
    for a,b in ((f'n{i}',f'sub/m{i}'),(f'sub/m{i}',f'n{i}')): os.rename(f'{d}/{a}',f'{d}/{b}')
    os.link(f'{d}/n{i}',f'{d}/sub/h{i}'); os.symlink('q',f'{d}/s{i}'); os.rename(f'{d}/s{i}',f'{d}/sub/s{i}'); os.replace(f'{d}/sub/s{i}',f'{d}/s')
os.rename(d+'/sock',d+'/sub/sock'); os.rename(d+'/s',d+'/sub/s')
try: os.link(d+'/n1',os.path.dirname(d)+'/other/x'); sys.exit('a link into another project was made')
except OSError as e: assert e.errno==18,e
import tempfile,shutil
t=tempfile.mkdtemp(dir=d); open(t+'/z','w').write('1'); os.rename(t,d+'/done')
Y
$ZPOOL sync; C=$(find $M/d | wc -l); U=$($ZFS projectspace -Hp -o name,objused $P | awk '$1==3{print $2}'); H=50
[ "${U:-0}" = $((C-H)) ] || O="objects counted for project 3: ${U:-none}, objects there: $((C-H))"
$ZFS set projectquota@3=1M $P; for i in 1 2 3 4 5 6; do head -c 1M /dev/urandom >>$M/d/big 2>/dev/null; $ZPOOL sync; done; [ $(stat -c %s $M/d/big) -lt 4000000 ] || wrong "projectquota does not hold: $(stat -c %s $M/d/big)"
rm -r $M/d/* || wrong "rm over quota"; mv $M/other $M/d/ && wrong "a directory of another project was moved in"
right "links of all kinds renamed; ${O:-}"
