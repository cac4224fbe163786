//! What pages tell beside what the tables of commands do.

use crate::program::Program;

type Section = (&'static str, &'static [&'static str]);

/// Sections of a program's page.
pub(super) fn about(program: &Program) -> &'static [Section] {
    match program.name {
        "zpool" => ZPOOL,
        "zfs" => ZFS,
        "daemon" => DAEMON,
        "advise" => ADVISE,
        "trace" => TRACE,
        "bench" => BENCH,
        _ => SAWMILL,
    }
}

/// More about a command, by its page.
pub(super) fn more(page: &str) -> &'static [&'static str] {
    match page {
        "zpool-create" | "zpool-add" => VDEVS,
        "zpool-import" => IMPORT,
        "sawmill-advise-log" => ADVISE_LOG,
        "zpool-iostat" => IOSTAT,
        "sawmill-zilstat" => ZILSTAT,
        "sawmill-what-if" => WHAT_IF,
        "sawmill-rescue" => RESCUE,
        _ => &[],
    }
}

const ZPOOL: &[Section] = &[(
    "DESCRIPTION",
    &[
        "Makes and looks after pools in the format of OpenZFS, without a kernel module. Words and output are those of OpenZFS's zpool.",
        "The first command starts the daemon that holds pools open, see sawmill-daemon(1).",
    ],
)];

const ZFS: &[Section] = &[(
    "DESCRIPTION",
    &[
        "Makes, mounts and destroys file systems in pools, and sets their properties. Words and output are those of OpenZFS's zfs.",
        "File systems are mounted through FUSE: /dev/fuse is needed, and root, or fusermount3 for other users.",
    ],
)];

const DAEMON: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            "The daemon holds pools open between commands, and serves their mounts. Any command of zpool or zfs that finds none starts it.",
            "It may be killed at any time: the next one opens the same pools again and replays their logs. What it had open is remembered in a file, also over a reboot.",
            "Where systemd runs, sawmill.service is the daemon of root. Enabled, it opens the pools at boot.",
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            "SAWMILL_FUSE_URING=1 when the daemon starts: mounts get their requests over io_uring, where the kernel allows it.",
            "SAWMILL_RUN: one directory for everything that the daemon keeps, instead of those below FILES. A daemon of its own goes with it.",
            "SAWMILL_LOG: what the daemon tells in its log, as in SAWMILL_LOG=debug.",
        ],
    ),
    (
        "FILES",
        &[
            "Of root: /run/sawmill/socket, /run/sawmill/daemon.log, and /var/lib/sawmill/pools.cache, the pools to open again.",
            "Of other users: sawmill/ in $XDG_RUNTIME_DIR, and pools.cache in $XDG_STATE_HOME/sawmill or ~/.local/state/sawmill.",
        ],
    ),
];

const ADVISE: &[Section] = &[(
    "DESCRIPTION",
    &[
        "Answers what is asked of those who keep pools, from what their own pools have measured. Nothing is changed.",
    ],
)];

const TRACE: &[Section] = &[(
    "DESCRIPTION",
    &[
        "Records each commit of a pool, with the write of the log that it waited for, and tells why some were slow. While it records, a commit costs a little more, and the daemon keeps some 200 bytes for each.",
        "What was recorded is JSON; sawmill-what-if(1) makes the same load again with a log device that is not there.",
    ],
)];

const BENCH: &[Section] = &[(
    "DESCRIPTION",
    &[
        "Measures commits, streams, small files and replays on pools that it makes on the files given, in process, and writes to files of any mounted file system.",
        "Sizes are numbers with k, m or g behind them. SAWMILL_DELAY=FILE=8ms,... slows devices down to the latency of a disk.",
    ],
)];

const SAWMILL: &[Section] = &[(
    "DESCRIPTION",
    &[
        "ZFS in user space: pools whose bytes on disk are OpenZFS's own, mounted without a kernel module. Called through a link named zpool, zfs, zinject or zilstat, it is that command.",
        "ls, cat, tree, cp, rescue and inspect open pools by themselves, without a mount and without the daemon.",
    ],
)];

const VDEVS: &[&str] = &[
    "A vdev is a file or a block device, or one of mirror, raidz, raidz2 and raidz3 with the devices behind it. Files are given by their whole paths.",
    "log, with devices or mirrors of them behind it, makes separate log devices: what fsync(2) waits for is written there. special makes devices for metadata.",
];

const IMPORT: &[&str] = &[
    "Without a pool, it lists those that could be opened. Opening one claims its intent logs, and replays them before anything is mounted.",
];

const IOSTAT: &[&str] = &[
    "The first look is of the time since the pool was opened, each later one of the time since the last, by the second. A leaf counts; rows of groups and of the pool are sums of their leaves'.",
    "-l tells total_wait, from a request to its answer; disk_wait, at the device alone; and the waits in its queue: of what somebody waits for (syncq_wait), of transaction groups and reads ahead (asyncq_wait), of scrub and resilver, of discards.",
    "-q tells how many wait for the device now and how many it has. -r tells sizes of what went to the device as it was asked for (ind), and of what the queue joined of neighbours (agg). -w tells the times of -l by powers of two.",
];

const ZILSTAT: &[&str] = &[
    "Fields, widths and flags are those of OpenZFS's zilstat, whose name a link to the program may have. Without -i it shows what was done since each dataset was first used after the import.",
    "Of a log block in the main pool imn-fields tell, of one on a log device ims-fields: how many (c), bytes of records (b), bytes written (w) and allocated (a).",
    "p50, p99, q99, w99, f99, cnc, wec and fec are Sawmill's own: how long commits took and where, how many found everything stable, and what failed.",
];

const WHAT_IF: &[&str] = &[
    "Makes the first 5,000 commits of a recording again, on a virtual clock: writers rest, write and wait as they did, disks take what they were seen to take, and the log device is a model.",
    "It is done nine times, with disks as in all of the recording and in each half of it, and with three seeds. What is told is the least and the most of those: how sure it is.",
];

const RESCUE: &[&str] = &[
    "Devices are opened for reading only. The uberblocks of all four labels are read; if none leads to a dataset, the devices are searched for roots by content.",
    "The files of a dataset are copied to DIR/DATASET/@, the files of a snapshot to DIR/DATASET/@SNAPSHOT. Files whose directory is lost are copied to DIR/lost+found.",
    "Lost byte ranges become holes. DIR/.sawmill-rescue/report.jsonl lists all damaged parts. The exit code is 1 if a part is lost.",
    "The same command continues a rescue that was stopped.",
];

const ADVISE_LOG: &[&str] = &[
    "What the pool's intent logs had to do is counted all the time; what is told is of the time since the pool was imported, or of as long as --for says.",
    "A log has to hold what a few transaction groups leave in it at once, and that is what its size follows from: of the largest group, and not of the size of the pool. Times are counted by powers of two, so that a percentile is told by what it is below.",
    "What is told of devices is what Linux tells in /sys. That a device does not do what flushes ask is told as a suspicion, with its reason; only a power cut proves it.",
];
