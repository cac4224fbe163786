#!/bin/bash
# A disk of 4 KiB sectors beside one of 512: attach and replace are refused in words that say why, add takes it with its own ashift; a copy of an ashift=9 pool on 4 KiB sectors.
. "$(dirname "$0")/common.bash"
truncate -s 300M $T/a $T/b $T/c $T/d; A=$(losetup -f --show $T/a) && B=$(losetup -f --show -b 4096 $T/b) && C=$(losetup -f --show $T/c) || wrong "no loop devices: $(tail -1 $T/err)"
fin2() { $ZPOOL destroy -f $P; losetup -d $A $B $C; } 2>/dev/null; wr() { fin2; wrong "$@"; }
$ZPOOL create -f -o ashift=9 -m $M $P $A || wr "create on 512: $(tail -1 $T/err)"; head -c 20M /dev/urandom >$M/f; H=$(md5sum <$M/f)
$ZPOOL attach $P $A $B && wr "a device of 4 KiB sectors was attached to ashift=9"; W1=$(grep cannot $T/err | tail -1); $ZPOOL replace $P $A $B && wr "replaced by one of 4 KiB sectors"; W2=$(grep cannot $T/err | tail -1)
grep -qiE "alignment|sector size" <<<"$W1" || O="words of attach: ${W1#*: };"; grep -qiE "alignment|sector size" <<<"$W2" || O="${O:-} words of replace: ${W2#*: };"
$ZPOOL attach -w $P $A $C || wr "attach of 512 to 512: $(tail -1 $T/err)"; $ZPOOL detach $P $C; $ZPOOL set ashift=12 $P; $ZPOOL attach -w $P $A $C || wr "attach when the pool's ashift was set to 12 after the vdev was made: $(tail -1 $T/err)"; $ZPOOL detach $P $A || wr "detach: $(tail -1 $T/err)"
$ZPOOL add -f $P $B || wr "add of 4 KiB sectors to an ashift=9 pool: $(tail -1 $T/err)"; [ "$($ZPOOL get -Hpo value ashift $P $B)" = 12 ] || wr "ashift of the added one: $($ZPOOL get -Hpo value ashift $P $B)"; head -c 50M /dev/urandom >$M/g; G=$(md5sum <$M/g)
$ZPOOL export $P && $ZPOOL import -d /dev $P || wr "export, import: $(tail -1 $T/err)"; [ "$(md5sum <$M/f)$(md5sum <$M/g)" = "$H$G" ] || wr data; $ZPOOL scrub -w $P; $ZPOOL status $P | grep -q "with 0 errors" || wr scrub
$ZPOOL remove -w $P $B && O="${O:-} the 4 KiB vdev could be removed from beside ashift 9;" ; $ZPOOL destroy $P
# an image of a 512-byte pool put on 4 KiB sectors
$ZPOOL create -f -o ashift=9 -m $M $P $T/d || wr "create: $(tail -1 $T/err)"; echo x >$M/x; $ZPOOL export $P; L=$(losetup -f --show -b 4096 $T/d); mkdir $T/dv; ln -s $L $T/dv/disk
if timeout 60 $ZPOOL import -d $T/dv $P; then O="${O:-} an ashift=9 pool imports from 4 KiB sectors"; [ "$(cat $M/x)" = x ] || wr "and its data are wrong"; dd if=/dev/urandom of=$M/y bs=512 count=999 && $ZPOOL export $P && timeout 60 $ZPOOL import -d $T/dv $P && [ -e $M/y ] || { losetup -d $L; wr "and cannot be written: $(tail -1 $T/err)"; }; $ZPOOL export $P; else O="${O:-} refused: $(grep cannot $T/err | tail -1)"; fi
losetup -d $L; $ZPOOL import -d $T $P && [ "$(cat $M/x)" = x ] || wr "back on 512: $(tail -1 $T/err)"; fin2; right "${O:-}"
