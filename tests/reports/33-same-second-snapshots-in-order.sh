#!/bin/bash
# Many snapshots in one second: list, destroy ranges, rollback messages, incremental -I have them in the order in which they were made.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; $ZFS create $P/f
L="z m a 10 9 2 1 b y-1 y_2 A _"; for s in $L; do echo $s >$M/f/$s; $ZFS snapshot $P/f@$s || wrong snap; done; W=$(echo $L)
o() { sed 's/.*@//' | tr '\n' ' ' | sed 's/ $//'; }
[ "$($ZFS list -Ho name -t snapshot $P/f | o)" = "$W" ] || O="plain list: $($ZFS list -Ho name -t snapshot $P/f | o);"
[ "$($ZFS list -Ho name -t snapshot -s creation $P/f | o)" = "$W" ] || wrong "-s creation: $($ZFS list -Ho name -t snapshot -s creation $P/f | o)"
[ "$($ZFS list -Ho name -t snapshot -s createtxg $P/f | o)" = "$W" ] || wrong "-s createtxg: $($ZFS list -Ho name -t snapshot -s createtxg $P/f | o)"
[ "$($ZFS list -Ho name -t snapshot -S createtxg $P/f | o)" = "$(echo $L | tr ' ' '\n' | tac | tr '\n' ' ' | sed 's/ $//')" ] || wrong "-S createtxg"
[ "$($ZFS list -Ho name -t snapshot -s name $P/f | o)" = "$(echo $L | tr ' ' '\n' | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')" ] || O="${O:-} -s name: $($ZFS list -Ho name -t snapshot -s name $P/f | o);"
$ZFS rollback $P/f@y-1 && wrong "rollback over newer ones"; [ "$(grep -o '@.*' $T/err | tail -3 | tr -d @ | tr '\n' ' ')" = "y_2 A _ " ] || O="${O:-} rollback names: $(grep -o '@.*' $T/err | tail -3 | tr '\n' ' ');"
[ "$($ZFS destroy -nvp $P/f@9%b | awk '/^destroy/{print $2}' | o)" = "9 2 1 b" ] || wrong "range 9%b: $($ZFS destroy -nvp $P/f@9%b | o)"
[ "$($ZFS send -nvP -I @a $P/f@_ | awk '$1=="incremental"{print $3}' | o)" = "10 9 2 1 b y-1 y_2 A _" ] || wrong "-I: $($ZFS send -nvP -I @a $P/f@_ | tr '\n\t' '; ')"
$ZFS send -R $P/f@_ | $ZFS receive $P/r || wrong "send -R: $(tail -1 $T/err)"; [ "$($ZFS list -Ho name -t snapshot -s createtxg $P/r | o)" = "$W" ] || wrong "received order: $($ZFS list -Ho name -t snapshot -s createtxg $P/r | o)"
for s in $L; do [ "$(cat $M/r/.zfs/snapshot/$s/$s)" = $s ] || wrong "contents of $s"; done
[ "$(ls -U $M/f/.zfs/snapshot | wc -l)" = 12 ] && [ "$(ls -tr $M/f/.zfs/snapshot/ | wc -l)" = 12 ] || wrong ".zfs/snapshot"
right "12 snapshots;${O:-}"
