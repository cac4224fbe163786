#!/bin/bash
# zfs set of mountpoint and canmount, destroy, export on what is in use: either done, or refused with the property as it was.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; $ZFS create $P/x; $ZFS create $P/x/y; echo a >$M/x/y/a; B=
g() { $ZFS get -Ho value,source $1 $2 | tr '\t' ' '; }
c() { # property, dataset, command that has to be refused or to be done
  local p=$1 d=$2 was=$(g $1 $2); shift 2; if "$@" 2>>$T/err; then D="${D:-} ${*:2:2} done;"; else [ "$(g $p $d)" = "$was" ] || B="$B '${*:2:2}' was refused ($(tail -1 $T/err | sed 's/.*: //')), and $p went from '$was' to '$(g $p $d)';"; fi; }
exec 5<$M/x/y/a; c mountpoint $P/x/y $ZFS set mountpoint=$T/else $P/x/y; exec 5<&-; $ZFS inherit mountpoint $P/x/y; [ -e $M/x/y/a ] || $ZFS mount $P/x/y; [ -e $M/x/y/a ] || wrong "not back at its place"
exec 5<$M/x/y/a; c mountpoint $P/x $ZFS set mountpoint=$T/else2 $P/x; [ -e $M/x/y/a ] || [ -e $T/else2/y/a ] || B="$B the child is in sight nowhere;"; exec 5<&-; $ZFS inherit mountpoint $P/x; $ZFS mount -a; [ -e $M/x/y/a ] || wrong "not back: $($ZFS get -Hro name,value mounted $P | tr '\n\t' '; ')"
exec 5<$M/x/y/a; c canmount $P/x/y $ZFS set canmount=off $P/x/y; [ "$($ZFS get -Ho value canmount $P/x/y)" = off ] && [ "$($ZFS get -Ho value mounted $P/x/y)" = yes ] && O="canmount=off leaves what is in use mounted;"; exec 5<&-; $ZFS set canmount=on $P/x/y; $ZFS set canmount=off $P/x/y; [ "$($ZFS get -Ho value mounted $P/x/y)" = yes ] && B="$B canmount=off leaves it mounted though nobody uses it;"; $ZFS set canmount=on $P/x/y; $ZFS mount -a
exec 5<$M/x/y/a; $ZFS destroy -r $P/x && wrong "destroyed what has files open"; $ZFS list $P/x/y >/dev/null && [ -e $M/x/y/a ] || B="$B a refused destroy -r took something away;"; $ZPOOL export $P && wrong "exported with files open"; [ -e $M/x/y/a ] && [ "$($ZFS get -Ho value mounted $P/x)" = yes ] || B="$B a refused export unmounted some;"; $ZPOOL destroy $P && wrong "pool destroyed with files open"; [ -e $M/x/y/a ] && [ "$($ZFS get -Ho value mounted $P)" = yes ] || B="$B a refused pool destroy unmounted some;"; exec 5<&-
[ -z "$B" ] || wrong "$B ${O:-}"; right "${D:-} ${O:-}"
