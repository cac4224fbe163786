#!/bin/bash
# zfs diff tells names that are right when hard links came and went, directories were renamed, and names need escapes.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a || wrong create; cd $M; mkdir src dest deep deep/er; echo f >src/file; echo g >src/two; ln src/two dest/two; echo m >moved; echo n >'with blank'; echo d >deep/er/x; echo z >gone
$ZFS snapshot $P@1
ln src/file dest/l; rm dest/l; rm dest/two; mv moved dest/moved; mv deep shallow; echo more >>shallow/er/x; echo q >>'with blank'; rm gone; echo new >neu; ln neu neu2; $ZFS snapshot $P@2
$ZFS diff -H $P@1 $P@2 >$T/d || wrong "diff: $(tail -1 $T/err)"; sort $T/d >$T/s
grep -q "^-	$M/src/file$" $T/d && wrong "src/file, which is there, is told as removed (a link to it came and went)"
grep -q "^-	$M/src/two$" $T/d && wrong "src/two is told as removed"
for l in "R	$M/moved	$M/dest/moved" "R	$M/deep	$M/shallow" "-	$M/gone"; do grep -qxF -- "$l" $T/d || wrong "missing: $l in: $(tr '\n\t' '; ' <$T/d)"; done
grep -q "^M	$M/with\\\\0040blank" $T/d || O="blanks are told so: $(grep with $T/d);"
grep -qE "^\+	$M/neu2?$" $T/d || wrong "neu is missing: $(tr '\n\t' '; ' <$T/d)"
$ZFS diff -FHt $P@1 | head -1 | grep -qE '^[0-9]+\.[0-9]{9}	' || O="${O:-} -t: $($ZFS diff -FHt $P@1 | head -1)"
right "$(wc -l <$T/d) lines; ${O:-}"
