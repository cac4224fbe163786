#!/bin/bash
# Dataset names and mount points with blanks, colons, percent signs, backslashes: mounted, told as mounted, unmounted, renamed, listed, sent, imported.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create
for n in 'name with blanks' 'a:b' '100.5-x_y' 'trailing.' '-dash'; do
  $ZFS create "$P/$n" || { O="${O:-} '$n' refused;"; continue; }
  echo "$n" >"$M/$n/f"; [ "$($ZFS get -Ho value mounted "$P/$n")" = yes ] || wrong "'$n' is told as not mounted"
  [ "$($ZFS list -Ho name,mountpoint "$P/$n")" = "$P/$n	$M/$n" ] || wrong "'$n': list $($ZFS list -Ho name,mountpoint "$P/$n")"
  $ZFS snapshot "$P/$n@s:1%x" 2>/dev/null && $ZFS destroy "$P/$n@s:1%x"; $ZFS snapshot "$P/$n@s 1" || wrong "'$n': snapshot with a blank: $(tail -1 $T/err)"
  $ZFS send "$P/$n@s 1" | $ZFS receive "$P/copy of" || wrong "'$n': send: $(tail -1 $T/err)"; grep -qx -- "$n" "$M/copy of/.zfs/snapshot/s 1/f" || wrong "'$n': copy"
  $ZFS destroy -r "$P/copy of" || wrong "'$n': destroy of the copy: $(tail -1 $T/err)"
  $ZFS unmount "$M/$n" || wrong "'$n': unmount by path: $(tail -1 $T/err)"; [ "$($ZFS get -Ho value mounted "$P/$n")" = no ] || wrong "'$n': told as mounted"
  $ZFS mount "$P/$n" || wrong "'$n': mount: $(tail -1 $T/err)"; $ZFS rename "$P/$n" "$P/x $n" || wrong "'$n': rename"; grep -qx -- "$n" "$M/x $n/f" || wrong "'$n': after rename"
done
$ZFS create "$P/mp" || wrong "create mp"; echo x >$M/mp/f
for mp in 'with  two blanks' 'back\slash' 'hash#' $'tab\there' 'per%cent' $'ümläut' 'quote"it'"'s"; do
  $ZFS set mountpoint="$T/$mp" $P/mp || { O="${O:-} mount point '$mp' refused;"; continue; }
  [ -f "$T/$mp/f" ] || wrong "mount point '$mp': not there"; [ "$($ZFS get -Ho value mounted $P/mp)" = yes ] || wrong "mount point '$mp': told as not mounted"
  $ZFS unmount "$T/$mp" && $ZFS mount $P/mp || wrong "mount point '$mp': unmount and mount: $(tail -1 $T/err)"
done
$ZPOOL export $P && $ZPOOL import -d $T $P || wrong "export, import: $(tail -1 $T/err)"
B=$($ZFS list -Ho mounted -t filesystem | sort | uniq -c | tr '\n' ' '); grep -q no <<<"$B" && wrong "not all mounted after import: $B"
right "all mounted, sent, renamed, imported;${O:-}"
