#!/bin/bash
# One thread appends with write, others read the same file by mmap and by read: nobody sees zeros below what was announced.
. "$(dirname "$0")/common.bash"
truncate -s 1G $T/a; $ZPOOL create -m $M $P $T/a || wrong create
cat >$T/t.c <<'Y'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdatomic.h>
#include <pthread.h>
#include <unistd.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
static atomic_long pos; static int fd; static char *map; static atomic_int bad; enum { SIZE = 64 << 20 };
static void *rd(void *how) { char b[37]; for (long o = 0; o + 37 <= SIZE;) { while (o + 37 > pos) ; 
  if (how) { if (pread(fd, b, 37, o) != 37) { bad = 2; return 0; } } else memcpy(b, map + o, 37);
  if (memcmp(b, "the quick brown fox jumps over a dog\n", 37)) { bad = 1; fprintf(stderr, "zeros by %s at %ld of %ld\n", how ? "read" : "mmap", o, (long)pos); return 0; } o += 37; } return 0; }
int main(int c, char **v) { fd = open(v[1], O_CREAT | O_RDWR | O_TRUNC, 0644); if (v[2][0] == 't') ftruncate(fd, SIZE);
  map = mmap(0, SIZE, PROT_READ, MAP_SHARED, fd, 0); pthread_t t[3]; for (long i = 0; i < 3; i++) pthread_create(t + i, 0, rd, (void *)(i == 2));
  char b[37 * 1000]; for (int i = 0; i < 1000; i++) memcpy(b + 37 * i, "the quick brown fox jumps over a dog\n", 37);
  for (long o = 0; o + 37 <= SIZE && !bad;) { long n = 37 * (1 + (o / 37) % 1000); if (o + n > SIZE) n = (SIZE - o) / 37 * 37; if (pwrite(fd, b, n, o) != n) return 3; o += n; pos = o; }
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0); return bad; }
Y
gcc -O1 -pthread -o $T/t $T/t.c || wrong "no compiler"
for i in 1 2 3; do for h in grow t; do timeout 100 $T/t $M/f$i$h $h || wrong "$h: $? $(tail -1 $T/err)"; done; done
right "six files of 64 MiB"
