/*
 * OpenZFS in user space (libzpool) under the load of `sawmill bench zil`: threads that write at
 * random places of one object, each write stable before the next.
 *
 * What is called is what an O_SYNC write does below the VFS: dmu_tx, dmu_write, an itx, and
 * zil_commit. Three things of libzpool are made for testing and not for speed, and replaced here
 * (the program is linked with -rdynamic, so these definitions win): a write to a file vdev is one
 * pwrite and not two, a flush is fdatasync and not fsync, and reads are plain.
 *
 * Two settings are what a kernel with this machine's memory would have, and not libzpool's: each dirty
 * byte counts twice against free space until it is synced and not 24 times (spa_asize_inflation; else a
 * pool of a few gigabytes looks full at 160 MB of dirty data and its writers wait), and a tenth of
 * memory may be dirty (zfs_dirty_data_max), four gigabytes at most.
 *
 * --crash ACKS kills the process at the end, after each thread has noted the newest version that
 * was acknowledged for each of its places; --replay ACKS opens the pool again, replays, and counts
 * places that are older than that: proof that what is measured is durable. With --forget the log
 * is not replayed: then there must be losses, or the proof proves nothing.
 */
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dmu_tx.h>
#include <sys/dsl_destroy.h>
#include <sys/zil.h>
#include <sys/zil_impl.h>
#include <sys/zfs_file.h>
#include <sys/fs/zfs.h>
#include <fcntl.h>
#include <getopt.h>
#include <libnvpair.h>
#include <sys/resource.h>
#include <signal.h>

#define	POOL "opponent"
#define	DATASET POOL "/data"
#define	FILES_MAX 16
#define	FILL_BYTES (1 << 20)

static struct {
	int threads;
	uint64_t size, span;
	double ramp, seconds;
	char *main[FILES_MAX], *log[FILES_MAX];
	int mains, logs;
	int log_mirror;
	const char *crash, *replay;
	int forget;
} plan = { .threads = 1, .size = 8192, .span = 400ULL << 20, .seconds = 5 };

/* Declared by no header of the package. */
extern uint_t spa_asize_inflation;

static objset_t *os;
static zilog_t *zilog;
static uint64_t object;
/* Writes that begin while this is set count. */
static volatile int measuring;
static volatile int stop;
static uint64_t device_writes, device_flushes;

/* The file layer: one system call for each request. */

int
zfs_file_pwrite(zfs_file_t *file, const void *bytes, size_t len, loff_t at, ssize_t *left)
{
	atomic_inc_64(&device_writes);
	ssize_t done = pwrite64(file->f_fd, bytes, len, at);
	if (done < 0)
		return (errno);
	if (left != NULL)
		*left = (ssize_t)len - done;
	return (left == NULL && (size_t)done != len ? EIO : 0);
}

int
zfs_file_fsync(zfs_file_t *file, int flags)
{
	(void) flags;
	atomic_inc_64(&device_flushes);
	return (fdatasync(file->f_fd) < 0 ? errno : 0);
}

static void
check(int error, const char *what)
{
	if (error != 0) {
		fprintf(stderr, "opponent: %s: %s\n", what, strerror(error));
		exit(1);
	}
}

static uint64_t
bytes_of(const char *text)
{
	char *end;
	uint64_t number = strtoull(text, &end, 10);
	switch (*end) {
	case 'g': case 'G': return (number << 30);
	case 'm': case 'M': return (number << 20);
	case 'k': case 'K': return (number << 10);
	default: return (number);
	}
}

static double
now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (time.tv_sec + time.tv_nsec / 1e9);
}

static double
cpu(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (time.tv_sec + time.tv_nsec / 1e9);
}

/* xorshift64, as on the other side. */
static uint64_t
roll(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state);
}

static nvlist_t *
leaf(const char *path, int is_log)
{
	nvlist_t *vdev = fnvlist_alloc();
	fnvlist_add_string(vdev, ZPOOL_CONFIG_TYPE, VDEV_TYPE_FILE);
	fnvlist_add_string(vdev, ZPOOL_CONFIG_PATH, path);
	fnvlist_add_uint64(vdev, ZPOOL_CONFIG_IS_LOG, is_log);
	fnvlist_add_uint64(vdev, ZPOOL_CONFIG_ASHIFT, 12);
	return (vdev);
}

static nvlist_t *
root_vdev(void)
{
	nvlist_t *tops[2 * FILES_MAX];
	int count = 0;
	for (int i = 0; i < plan.mains; i++)
		tops[count++] = leaf(plan.main[i], 0);
	if (plan.log_mirror && plan.logs > 1) {
		nvlist_t *sides[FILES_MAX];
		for (int i = 0; i < plan.logs; i++)
			sides[i] = leaf(plan.log[i], 1);
		nvlist_t *mirror = fnvlist_alloc();
		fnvlist_add_string(mirror, ZPOOL_CONFIG_TYPE, VDEV_TYPE_MIRROR);
		fnvlist_add_uint64(mirror, ZPOOL_CONFIG_IS_LOG, 1);
		fnvlist_add_nvlist_array(mirror, ZPOOL_CONFIG_CHILDREN,
		    (const nvlist_t **)sides, plan.logs);
		tops[count++] = mirror;
	} else {
		for (int i = 0; i < plan.logs; i++)
			tops[count++] = leaf(plan.log[i], 1);
	}
	nvlist_t *root = fnvlist_alloc();
	fnvlist_add_string(root, ZPOOL_CONFIG_TYPE, VDEV_TYPE_ROOT);
	fnvlist_add_nvlist_array(root, ZPOOL_CONFIG_CHILDREN, (const nvlist_t **)tops, count);
	return (root);
}

static uint32_t
record_bytes(void)
{
	uint64_t bytes = 4096;
	while (bytes < plan.size && bytes < (128 << 10))
		bytes <<= 1;
	return ((uint32_t)bytes);
}

static void
make_dataset(objset_t *fresh, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	(void) arg, (void) cr;
	VERIFY0(dmu_object_claim(fresh, 1, DMU_OT_UINT64_OTHER, record_bytes(), DMU_OT_NONE, 0, tx));
}

/* The contents of a write whose record was made without them. */
static int
get_data(void *arg, uint64_t arg2, lr_write_t *record, char *into, struct lwb *lwb, zio_t *zio)
{
	(void) arg, (void) arg2, (void) lwb, (void) zio;
	if (into == NULL)
		return (SET_ERROR(ENOTSUP));
	return (dmu_read(os, record->lr_foid, record->lr_offset, record->lr_length, into,
	    DMU_READ_NO_PREFETCH));
}

static void
log_write(dmu_tx_t *tx, uint64_t at, uint64_t len, const void *bytes)
{
	/* As the ZPL decides: a copy now if it fits one record, later otherwise. */
	int copied = len <= zil_max_copied_data(zilog);
	itx_t *itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t) + (copied ? len : 0));
	lr_write_t *record = (lr_write_t *)&itx->itx_lr;
	itx->itx_wr_state = copied ? WR_COPIED : WR_NEED_COPY;
	itx->itx_sync = B_TRUE;
	record->lr_foid = object;
	record->lr_offset = at;
	record->lr_length = len;
	record->lr_blkoff = 0;
	BP_ZERO(&record->lr_blkptr);
	if (copied)
		memcpy(record + 1, bytes, len);
	zil_itx_assign(zilog, itx, tx);
}

static void
write_at(uint64_t at, uint64_t len, void *bytes, int stable)
{
	dmu_tx_t *tx = dmu_tx_create(os);
	dmu_tx_hold_write(tx, object, at, len);
	check(dmu_tx_assign(tx, DMU_TX_WAIT), "dmu_tx_assign");
	dmu_write(os, object, at, len, bytes, tx);
	if (stable)
		log_write(tx, at, len, bytes);
	dmu_tx_commit(tx);
	if (stable)
		zil_commit(zilog, object);
}

static void
fill(void)
{
	char *bytes = malloc(FILL_BYTES);
	uint64_t dice = 7;
	for (uint64_t at = 0; at < plan.span; at += FILL_BYTES) {
		for (uint64_t *word = (uint64_t *)bytes; word < (uint64_t *)(bytes + FILL_BYTES); word++)
			*word = plan.crash != NULL ? 0 : roll(&dice);
		write_at(at, MIN(FILL_BYTES, plan.span - at), bytes, 0);
	}
	free(bytes);
	txg_wait_synced(dmu_objset_pool(os), 0);
}

/* Writers. */

typedef struct {
	pthread_t thread;
	int number;
	uint64_t commits, room;
	double *latencies;
	uint64_t *acked; /* newest acknowledged version of each place */
} writer_t;

static uint64_t
places(void)
{
	return (MAX(plan.span / plan.size / plan.threads, 1));
}

static void
note_latency(writer_t *writer, double seconds)
{
	if (writer->commits == writer->room) {
		writer->room = writer->room == 0 ? 65536 : writer->room * 2;
		writer->latencies = realloc(writer->latencies, writer->room * sizeof (double));
	}
	writer->latencies[writer->commits++] = seconds;
}

/* Threads share all places when timing, and have some of their own when what they wrote counts. */
static void *
writer_main(void *arg)
{
	writer_t *writer = arg;
	uint64_t dice = (writer->number + 1) * 0x9e3779b97f4a7c15ULL | 1;
	char *bytes = malloc(plan.size);
	for (uint64_t i = 0; i + 8 <= plan.size; i += 8)
		*(uint64_t *)(bytes + i) = roll(&dice);
	uint64_t all = plan.crash != NULL ? places() : MAX(plan.span / plan.size, 1);
	while (!stop) {
		uint64_t place = roll(&dice) % all;
		uint64_t at = place * plan.size;
		if (plan.crash != NULL) {
			at += writer->number * places() * plan.size;
			*(uint64_t *)bytes = writer->acked[place] + 1;
		}
		int counts = measuring;
		double begun = now();
		write_at(at, plan.size, bytes, 1);
		if (counts)
			note_latency(writer, now() - begun);
		if (plan.crash != NULL)
			writer->acked[place]++;
	}
	return (NULL);
}

static int
by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return ((x > y) - (x < y));
}

static void
report(writer_t *writers, double seconds, double cpu_seconds, uint64_t writes, uint64_t flushes)
{
	uint64_t commits = 0;
	for (int i = 0; i < plan.threads; i++)
		commits += writers[i].commits;
	double *all = malloc(MAX(commits, 1) * sizeof (double)), sum = 0;
	uint64_t at = 0;
	for (int i = 0; i < plan.threads; i++)
		for (uint64_t j = 0; j < writers[i].commits; j++)
			sum += all[at++] = writers[i].latencies[j];
	qsort(all, commits, sizeof (double), by_time);
#define	PART(p) (commits == 0 ? 0 : 1e6 * all[MIN((uint64_t)(commits * (p)), commits - 1)])
	printf("{\"threads\":%d,\"size_bytes\":%llu,\"commits\":%llu,\"seconds\":%.3f,"
	    "\"commits_per_second\":%.1f,\"mb_per_second\":%.2f,\"latency_mean_us\":%.2f,"
	    "\"latency_p50_us\":%.2f,\"latency_p99_us\":%.2f,\"latency_p999_us\":%.2f,"
	    "\"cpu_seconds_per_1000\":%.5f,\"device_writes_per_commit\":%.3f,"
	    "\"flushes_per_commit\":%.3f}\n",
	    plan.threads, (u_longlong_t)plan.size, (u_longlong_t)commits, seconds,
	    commits / seconds, commits * plan.size / seconds / 1e6,
	    commits == 0 ? 0 : 1e6 * sum / commits, PART(0.5), PART(0.99), PART(0.999),
	    cpu_seconds * 1000 / MAX(commits, 1), (double)writes / MAX(commits, 1),
	    (double)flushes / MAX(commits, 1));
	fflush(stdout);
}

static void
keep_acks(writer_t *writers)
{
	FILE *file = fopen(plan.crash, "w");
	if (file == NULL)
		check(errno, plan.crash);
	for (int i = 0; i < plan.threads; i++)
		fwrite(writers[i].acked, sizeof (uint64_t), places(), file);
	if (fclose(file) != 0)
		check(errno, plan.crash);
}

static void
measure(void)
{
	writer_t *writers = calloc(plan.threads, sizeof (writer_t));
	char *first = calloc(1, plan.size);
	write_at(0, plan.size, first, 1);
	for (int i = 0; i < plan.threads; i++) {
		writers[i].number = i;
		writers[i].acked = calloc(places(), sizeof (uint64_t));
		check(pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]), "thread");
	}
	usleep((useconds_t)(plan.ramp * 1e6));
	uint64_t writes = device_writes, flushes = device_flushes;
	double begun = now(), cpu_begun = cpu();
	measuring = 1;
	usleep((useconds_t)(plan.seconds * 1e6));
	stop = 1;
	for (int i = 0; i < plan.threads; i++)
		pthread_join(writers[i].thread, NULL);
	report(writers, now() - begun, cpu() - cpu_begun, device_writes - writes,
	    device_flushes - flushes);
	if (plan.crash != NULL) {
		keep_acks(writers);
		kill(getpid(), SIGKILL);
	}
}

/* Replay. */

static int
replay_write(void *arg1, void *arg2, boolean_t byteswap)
{
	objset_t *objset = arg1;
	lr_write_t *record = arg2;
	if (byteswap)
		return (SET_ERROR(ENOTSUP));
	dmu_tx_t *tx = dmu_tx_create(objset);
	dmu_tx_hold_write(tx, record->lr_foid, record->lr_offset, record->lr_length);
	check(dmu_tx_assign(tx, DMU_TX_WAIT), "dmu_tx_assign");
	dmu_write(objset, record->lr_foid, record->lr_offset, record->lr_length, record + 1, tx);
	(void) zil_replaying(dmu_objset_zil(objset), tx);
	dmu_tx_commit(tx);
	return (0);
}

static int
replay_nothing(void *arg1, void *arg2, boolean_t byteswap)
{
	(void) arg1, (void) arg2, (void) byteswap;
	return (SET_ERROR(ENOTSUP));
}

static void
look_for_losses(void)
{
	uint64_t lost = 0, looked = 0;
	FILE *file = fopen(plan.replay, "r");
	if (file == NULL)
		check(errno, plan.replay);
	for (int i = 0; i < plan.threads; i++) {
		for (uint64_t place = 0; place < places(); place++) {
			uint64_t acked, found;
			if (fread(&acked, sizeof (acked), 1, file) != 1)
				check(EIO, plan.replay);
			uint64_t at = (i * places() + place) * plan.size;
			check(dmu_read(os, object, at, sizeof (found), &found, 0), "dmu_read");
			looked++;
			if (acked > 0 && found < acked)
				lost++;
		}
	}
	fclose(file);
	printf("{\"places\":%llu,\"lost\":%llu}\n", (u_longlong_t)looked, (u_longlong_t)lost);
	fflush(stdout);
}

/* Remembers the pool beside its files, and not where the system keeps its own. */
static void
choose_cache(void)
{
	static char path[PATH_MAX];
	(void) snprintf(path, sizeof (path), "%s.cache", plan.main[0]);
	if (plan.replay == NULL)
		(void) unlink(path);
	spa_config_path = path;
}

static void
parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "threads", 1, 0, 't' }, { "size", 1, 0, 's' }, { "span", 1, 0, 'n' },
		{ "ramp", 1, 0, 'R' }, { "seconds", 1, 0, 'T' }, { "main", 1, 0, 'm' }, { "log", 1, 0, 'l' },
		{ "log-mirror", 0, 0, 'M' }, { "crash", 1, 0, 'c' }, { "replay", 1, 0, 'r' },
		{ "forget", 0, 0, 'f' },
		{ 0 }
	};
	int letter;
	while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (letter) {
		case 't': plan.threads = atoi(optarg); break;
		case 's': plan.size = bytes_of(optarg); break;
		case 'n': plan.span = bytes_of(optarg); break;
		case 'R': plan.ramp = atof(optarg); break;
		case 'T': plan.seconds = atof(optarg); break;
		case 'm': plan.main[plan.mains++ % FILES_MAX] = optarg; break;
		case 'l': plan.log[plan.logs++ % FILES_MAX] = optarg; break;
		case 'M': plan.log_mirror = 1; break;
		case 'c': plan.crash = optarg; break;
		case 'r': plan.replay = optarg; break;
		case 'f': plan.forget = 1; break;
		default: exit(2);
		}
	}
	if (plan.mains == 0 || plan.mains > FILES_MAX || plan.logs > FILES_MAX || plan.threads < 1) {
		fprintf(stderr, "usage: opponent [--threads N] [--size S] [--span S] [--ramp T] [--seconds T] "
		    "--main FILE... [--log FILE...] [--log-mirror] [--crash ACKS | --replay ACKS [--forget]]\n");
		exit(2);
	}
}

/* As a kernel module in a pool that is large beside what is dirty. */
static void
tune(void)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	spa_asize_inflation = 2;
	zfs_dirty_data_max = MIN(memory / 10, 4ULL << 30);
}

int
main(int argc, char **argv)
{
	static zil_replay_func_t *functions[TX_MAX_TYPE];
	parse(argc, argv);
	choose_cache();
	kernel_init(SPA_MODE_READ | SPA_MODE_WRITE);
	zfs_flags = 0;
	tune();
	for (int i = 0; i < TX_MAX_TYPE; i++)
		functions[i] = replay_nothing;
	functions[TX_WRITE] = replay_write;
	object = 1;
	if (plan.replay == NULL) {
		check(spa_create(POOL, root_vdev(), NULL, NULL, NULL), "spa_create");
		check(dmu_objset_create(DATASET, DMU_OST_OTHER, 0, NULL, make_dataset, NULL), "create");
	}
	check(dmu_objset_own(DATASET, DMU_OST_OTHER, B_FALSE, B_TRUE, FTAG, &os), "own");
	if (plan.replay != NULL && !plan.forget)
		zil_replay(os, os, functions);
	if (plan.forget) {
		look_for_losses();
		_exit(0);
	}
	zilog = zil_open(os, get_data, NULL);
	if (plan.replay != NULL) {
		look_for_losses();
	} else {
		fill();
		measure();
	}
	zil_close(zilog);
	dmu_objset_disown(os, B_TRUE, FTAG);
	(void) spa_destroy(POOL);
	kernel_fini();
	return (0);
}
