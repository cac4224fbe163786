#!/bin/bash
# An increment received into a mounted file system whose files are cached, mapped and listed: what is read afterwards is the new state.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a $T/b; $ZPOOL create -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create; S=$M D=$T/n/r
mkdir $S/d $S/e; for i in $(seq 20); do head -c $((i*5000)) /dev/urandom >$S/d/f$i; done; echo v1 >$S/v; $ZFS snapshot $P@0; $ZFS send $P@0 | $ZFS receive ${P}b/r || wrong "full"
for r in 1 2 3 4 5; do
  find $D -type f | xargs cat >/dev/null; ls -lR $D >/dev/null; stat $D/new$r $D/e/moved$r >/dev/null
  python3 -c "
import mmap,os,sys,time
f=open('$D/v','rb'); a=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ); a[0]; time.sleep(4)" & PY=$!
  head -c $((r*7000)) /dev/urandom >$S/d/f1; head -c 3000 /dev/urandom >>$S/d/f2; dd if=/dev/urandom of=$S/d/f3 bs=100 seek=3 count=1 conv=notrunc; rm $S/d/f$((r+3)); mv $S/d/f$((r+10)) $S/e/moved$r; echo new >$S/new$r; mkdir $S/dd$r; echo v$r >$S/v; chmod 6$r$((r-1)) $S/d/f20; truncate -s $((90000-r*1000)) $S/d/f19
  $ZFS snapshot $P@$r; $ZFS send -i @$((r-1)) $P@$r | $ZFS receive ${P}b/r || { kill $PY; $ZFS send -i @$((r-1)) $P@$r | $ZFS receive -F ${P}b/r || wrong "round $r: receive: $(tail -1 $T/err)"; O="${O:-} round $r took -F;"; }
  diff -r $S $D >$T/d || wrong "round $r: $(head -2 $T/d)"
  (cd $S; find . -printf '%P %m %s %T@ %y\n' | sort) >$T/1; (cd $D; find . -printf '%P %m %s %T@ %y\n' | sort) >$T/2; cmp $T/1 $T/2 || wrong "round $r: attributes: $(diff $T/1 $T/2 | head -3 | tr '\n' ' ')"
  kill $PY; wait $PY
done
right "five increments seen at once;${O:-}"
