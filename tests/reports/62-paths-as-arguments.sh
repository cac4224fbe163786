#!/bin/bash
# zfs list and zfs get take a path in place of a name: the file system that is mounted there, or that the path is in.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; $ZFS create -o mountpoint="$T/with blank" $P/w; mkdir -p $M/deep/er "$T/with blank/sub"; touch $M/file
for c in list get; do for q in "$M=$P" "$M/=$P" "$M/deep/er=$P" "$M/file=$P" "$T/with blank=$P/w" "$T/with blank/sub=$P/w"; do
  case $c in list) o=$($ZFS list -Ho name "${q%=*}");; get) o=$($ZFS get -Ho name mounted "${q%=*}");; esac; [ "$o" = "${q##*=}" ] || B="${B:-} zfs $c ${q%=*} says '$o' $(tail -1 $T/err);"; done; done
cd $M/deep; [ "$($ZFS list -Ho name ./er)" = $P ] || B="${B:-} zfs list ./er;"; cd /; $ZFS list /proc >/dev/null && wrong "a path elsewhere was taken"
[ -z "${B:-}" ] || wrong "$(cut -c1-300 <<<"$B")"; right "six paths"
