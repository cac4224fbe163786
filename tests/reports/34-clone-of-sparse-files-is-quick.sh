#!/bin/bash
# cp of huge sparse files, of a file that ends in a hole, and of one that was just written: ends soon, holes stay, bytes equal.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create; cd $M
truncate -s 256M tail; head -c 300000 /dev/urandom | dd of=tail conv=notrunc 2>/dev/null; $ZPOOL sync
q() { local s=$(date +%s%N); timeout 60 "$@" || wrong "$*: rc $? $(tail -1 $T/err)"; MS=$((($(date +%s%N)-s)/1000000)); }
cat >$T/cfr <<'Y'
import os,sys
a=os.open(sys.argv[1],os.O_RDONLY); b=os.open(sys.argv[2],os.O_CREAT|os.O_RDWR|os.O_TRUNC); n=os.fstat(a).st_size; c=0
while n>c:
    k=os.copy_file_range(a,b,n-c,c,c)
    if k==0: break
    c+=k
assert c==n,(c,n)
Y
q cp tail t1; cmp tail t1 || wrong "tail"; q python3 $T/cfr tail t2; cmp tail t2 || wrong "tail by copy_file_range"; O="256M tail hole $MS ms;"
truncate -s 100M new; echo x >>new; q python3 $T/cfr new t3; cmp new t3 || wrong "just written"; 
dd if=/dev/urandom of=big seek=134217728 count=1 bs=4k; $ZPOOL sync; q cp big b1; O="$O 512G sparse by cp $MS ms;"; [ $(du -k b1 | cut -f1) -lt 2000 ] || wrong "the copy takes $(du -k b1 | cut -f1) KiB"
[ "$(tail -c 4096 big | md5sum)" = "$(tail -c 4096 b1 | md5sum)" ] || wrong "end of the copy"
s=$(date +%s%N); timeout 120 python3 -c "
import os
a=os.open('big',os.O_RDONLY); b=os.open('b2',os.O_CREAT|os.O_RDWR); n=os.fstat(a).st_size; c=0
while c<n: c+=os.copy_file_range(a,b,n-c,c,c)" || wrong "copy_file_range of 512G sparse does not end in two minutes"; O="$O by copy_file_range $((($(date +%s%N)-s)/1000000)) ms;"
[ "$(tail -c 4096 big | md5sum)" = "$(tail -c 4096 b2 | md5sum)" ] || wrong "end of the second copy"
q rm big b1 b2; q truncate -s 7E huge; python3 -c "
import os; f=os.open('huge',os.O_CREAT|os.O_RDWR); os.ftruncate(f,2**63-1); os.pwrite(f,b'end',2**63-1-3); assert os.pread(f,3,2**63-4)==b'end'; assert os.lseek(f,0,os.SEEK_DATA)>2**62; os.fsync(f)" || O="$O 8 EiB - 1: $(tail -1 $T/err);"
q cp --sparse=always tail t5; q truncate -s 0 huge; O="$O shrink of 8 EiB $MS ms;"; q rm huge
$ZFS snapshot $P@1; q $ZFS destroy $P@1
right "$O"
