# Sourced by each script: a daemon of its own, a pool name that nobody else has, and the two ends of a script.
#   P    the name of the pool, and the beginning of the names of further pools
#   T    a directory for files, which is removed at the end
#   M    a mount point below it
# What commands print on standard error goes to $T/err.
set -u
ZPOOL=${ZPOOL:-zpool} ZFS=${ZFS:-zfs} SAW=${SAW:-sawmill}
N=$(basename "$0" .sh) P=r$$ T=$(mktemp -d "${TMPDIR:-/var/tmp}/rep.XXXXXX") M=$T/m
export SAWMILL_RUN=$T/run
mkdir -m 700 "$SAWMILL_RUN"
exec 9>&2 2>"$T/err"

fin() {
    cd /
    $ZPOOL list -H -o name | grep "^$P" | xargs -rn1 $ZPOOL destroy -f
    $SAW daemon stop
    awk -v t="$T/" 'index($2,t)==1{print $2}' /proc/mounts | tac | xargs -rn1 umount -l
    rm -rf "$T"
} >/dev/null 2>&1

wrong() { echo "$N: wrong: $*"; fin; exit 1; }
right() { echo "$N: right: $*"; fin; exit 0; }
