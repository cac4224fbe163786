#!/bin/bash
# Names looked up before, made, rolled back, made again: the kernel must not keep what was true before the rollback.
. "$(dirname "$0")/common.bash"
truncate -s 512M $T/a; $ZPOOL create -m $M $P $T/a; $ZFS create $P/h || wrong create; F=$M/h
stat $F/foo && wrong "foo is there"; mkdir $F/dir; echo one >$F/dir/old; echo keep >$F/keep; ln -s keep $F/link; $ZFS snapshot $P/h@0
for i in 1 2 3 4 5; do
  stat $F/foo; [ -e $F/dir/new ] && wrong "round $i: dir/new"
  $ZFS rollback $P/h@0 || wrong "round $i: first rollback: $(tail -1 $T/err)"
  touch $F/foo || wrong "round $i: touch after rollback: $(tail -1 $T/err)"
  echo two >$F/dir/old; echo x >$F/dir/new; rm $F/keep; mkdir $F/keep; ln -sfn dir $F/link; ls -l $F $F/dir >/dev/null; cat $F/dir/old
  $ZFS rollback $P/h@0 || wrong "round $i: second rollback: $(tail -1 $T/err)"
  [ -e $F/foo ] && wrong "round $i: foo is still there after the rollback"
  ls $F | tr '\n' ' ' | grep -qx "dir keep link " || wrong "round $i: list: $(ls $F)"
  [ "$(cat $F/dir/old)" = one ] || wrong "round $i: dir/old says $(cat $F/dir/old)"
  [ "$(cat $F/keep)" = keep ] || wrong "round $i: keep: $(tail -1 $T/err)"
  [ "$(readlink $F/link)" = keep ] || wrong "round $i: link"
  touch $F/foo && [ -f $F/foo ] && ls $F | grep -q foo || wrong "round $i: foo cannot be made: $(tail -1 $T/err)"
  (cd $F/dir && echo y >rel && [ -s $F/dir/rel ]) || wrong "round $i: directory entered"
done
right "five rounds"
