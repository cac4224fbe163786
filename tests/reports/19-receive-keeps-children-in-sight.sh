#!/bin/bash
# An increment for a parent with -F, or a rollback of it: children that are mounted below stay mounted and in sight.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a $T/b; $ZPOOL create -O canmount=off -m $M $P $T/a && $ZPOOL create -m $T/n ${P}b $T/b || wrong create
$ZFS create $P/p; $ZFS create $P/p/c; touch $M/p/c/here; $ZFS snapshot -r $P/p@1; echo x >$M/p/x; $ZFS snapshot -r $P/p@2
$ZFS send $P/p@1 | $ZFS receive ${P}b/p; $ZFS send $P/p/c@1 | $ZFS receive ${P}b/p/c || wrong "full: $(tail -1 $T/err)"
[ -e $T/n/p/c/here ] || wrong "not there after the first receive"
exec 6<$T/n/p/c/here
$ZFS send -i @1 $P/p@2 | $ZFS receive -F ${P}b/p || wrong "increment for the parent, a file of the child open: $(tail -1 $T/err)"
[ -e $T/n/p/c/here ] || wrong "the child's files are out of sight after an increment for its parent"
[ "$($ZFS get -H -o value mounted ${P}b/p/c)" = yes ] || wrong "the child is not mounted"
[ -e $T/n/p/x ] || wrong "the parent has not what was sent"
echo w >$T/n/p/c/w || wrong "child not writable"; [ "$(df --output=source $T/n/p/c/w | tail -1)" = ${P}b/p/c ] || wrong "what was written into the child went to $(df --output=source $T/n/p/c/w | tail -1)"
$ZFS rollback -r ${P}b/p@1 || wrong "rollback: $(tail -1 $T/err)"; [ -e $T/n/p/c/here ] && [ ! -e $T/n/p/x ] || wrong "after rollback of the parent"
exec 6<&-
right "parent received and rolled back, child in sight and mounted"
