#!/bin/bash
# Directories of 3,000 names read in small pieces while names come and go; telldir and seekdir; find -delete and rm -r: each lasting name once.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
cat >$T/t.c <<'Y'
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <sys/stat.h>
struct d64 { unsigned long ino; long off; unsigned short len; unsigned char type; char name[]; };
static char *dir; static char path[400]; static char *p(const char *n) { snprintf(path, 400, "%s/%s", dir, n); return path; }
int main(int c, char **v) { dir = v[1]; int n = 3000, piece = atoi(v[2]), seen[3001] = {0}, gone[3001] = {0}; char b[70], buf[65536]; mkdir(dir, 0755);
  for (int i = 0; i < n; i++) { sprintf(b, "lasting%04d%s", i, i % 7 ? "" : "-with-a-longer-name-than-the-others"); close(creat(p(b), 0644)); }
  int fd = open(dir, O_RDONLY), del = 0, made = 0; long k; srandom(piece);
  while ((k = syscall(SYS_getdents64, fd, buf, piece)) > 0) for (long o = 0; o < k;) { struct d64 *d = (void *)(buf + o); o += d->len; int i;
    if (sscanf(d->name, "lasting%d", &i) == 1) { if (seen[i]++) { fprintf(stderr, "%s twice\n", d->name); return 1; } if (gone[i] == 2) { } 
      if (random() % 3 == 0) { if (unlink(p(d->name))) { perror(d->name); return 1; } gone[i] = 1; del++; } }
    if (random() % 5 == 0) { sprintf(b, "new%05d", made++); close(creat(p(b), 0644)); if (random() % 2) unlink(p(b)); } if (made > 20000) { fprintf(stderr, "the listing does not end\n"); return 1; } }
  if (k < 0) { perror("getdents"); return 1; } for (int i = 0; i < n; i++) if (!seen[i]) { fprintf(stderr, "lasting%04d was never listed (piece %d, %d removed meanwhile)\n", i, piece, del); return 1; }
  close(fd); DIR *D = opendir(dir); struct dirent *e; long at[30000]; char *nm[30000]; int m = 0; while ((at[m] = telldir(D), e = readdir(D))) nm[m++] = strdup(e->d_name);
  for (int t = 0; t < 2000; t++) { int i = random() % m; seekdir(D, at[i]); e = readdir(D); if (!e || strcmp(e->d_name, nm[i])) { fprintf(stderr, "seekdir to %s brings %s\n", nm[i], e ? e->d_name : "the end"); return 1; } }
  rewinddir(D); int again = 0; while (readdir(D)) again++; if (again != m) { fprintf(stderr, "rewinddir: %d for %d\n", again, m); return 1; }
  seekdir(D, at[m / 2]); for (int i = m / 2; i < m; i++) if (nm[i][0] != '.') unlink(p(nm[i])); int left = 0; while ((e = readdir(D))) left++; rewinddir(D); again = 0; while (readdir(D)) again++; int want = 0; for (int i = 0; i < m / 2; i++) want++; for (int i = m / 2; i < m; i++) if (nm[i][0] == '.') want++;
  if (again != want) { fprintf(stderr, "after unlinks: %d names for %d\n", again, want); return 1; } return 0; }
Y
gcc -O1 -w -o $T/t $T/t.c || wrong compiler
for s in 300 1024 4096 65536; do $T/t $M/d$s $s || wrong "$(tail -1 $T/err)"; done
find $M/d300 -type f -delete && rmdir $M/d300 || wrong "find -delete: $(tail -1 $T/err)"; (rm -r $M/d1024 & rm -rf $M/d1024 2>/dev/null; wait); rm -rf $M/d1024; [ -e $M/d1024 ] && wrong "rm -rf by two"
python3 -c "
import os,shutil
for e in os.scandir('$M/d4096'): os.unlink(e.path)
os.rmdir('$M/d4096'); shutil.rmtree('$M/d65536')" || wrong "scandir and unlink: $(tail -1 $T/err)"
right "pieces of 300 to 65,536 bytes"
