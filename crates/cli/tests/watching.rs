//! `zpool iostat -l -q -r -w` and `zilstat`, of a real pool with a load that is known.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
const WRITES: u64 = 50;
/// With its head and the chain's, a record of so many bytes fills a block of 8 KiB.
const BYTES: usize = 7_000;
const BLOCK: u64 = 8_192;

/// Writes of [`BYTES`], each stable before the next.
fn write(place: &Place, name: &str, count: u64) {
    let mut options = std::fs::File::options();
    let file = options.write(true).create(true).truncate(true).custom_flags(O_DSYNC).open(place.path(name));
    let mut file = file.expect("a file");
    (0..count).for_each(|_| file.write_all(&[7; BYTES]).expect("writes"));
}

/// A pool with two data devices and a mirrored log, mounted, that has begun its log.
fn with_log() -> Option<Place> {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return None;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt tank W/d1 W/d2 log mirror W/l1 W/l2");
    write(&place, "mnt/first", 1);
    place.ok("zpool sync tank");
    Some(place)
}

/// The cells of the row that begins so, in the table of a vdev: `zpool iostat -rHp` or `-wHp`.
fn cells(text: &str, vdev: &str, row: &str) -> Vec<u64> {
    let mut lines = text.lines().skip_while(|line| *line != vdev).skip(1);
    let row = lines.find(|line| line.split('\t').next() == Some(row)).expect("a row of the table");
    row.split('\t').skip(1).map(|cell| cell.parse().expect("a number")).collect()
}

/// All cells of a column of a vdev's table together.
fn column(text: &str, vdev: &str, column: usize) -> u64 {
    let lines = text.lines().skip_while(|line| *line != vdev).skip(1).take_while(|line| line.contains('\t'));
    lines
        .map(|line| line.split('\t').nth(column + 1).expect("a column").parse::<u64>().expect("a number"))
        .sum()
}

/// Columns of `-r`.
const SYNC_WRITE_ALONE: usize = 2;
/// Columns of `-w`.
const TOTAL_WRITE: usize = 1;
const DISK_WRITE: usize = 3;
const SYNC_WRITE_WAIT: usize = 5;

#[test]
fn sync_writes_are_counted_by_size_where_they_went() {
    let Some(place) = with_log() else { return };
    let sizes = |place: &Place| place.ok("zpool iostat -rvHp tank");
    let row = BLOCK.to_string();
    let of = |text: &str, vdev: &str| cells(text, vdev, &row)[SYNC_WRITE_ALONE];
    let before = sizes(&place);
    write(&place, "mnt/file", WRITES);
    let after = sizes(&place);
    for (vdev, copies) in [("W/l1", 1), ("W/l2", 1), ("mirror-2", 2)] {
        assert_eq!(of(&after, vdev) - of(&before, vdev), copies * WRITES, "{vdev}: {after}");
    }
    assert!(of(&after, "tank") - of(&before, "tank") >= 2 * WRITES, "the pool has its logs' figures, too");
    assert_eq!(of(&after, "W/d1") - of(&before, "W/d1"), 0, "{after}");
    // What a txg writes is no sync write, and goes to the data devices.
    place.ok("zpool sync tank");
    let synced = sizes(&place);
    let written = |text: &str| (6..8).map(|i| column(text, "W/d1", i)).sum::<u64>();
    assert!(written(&synced) > written(&after), "{synced}");
    assert_eq!(of(&synced, "W/l1"), of(&after, "W/l1"));
    assert_eq!(place.ok("zpool iostat -rHp tank W/l1"), {
        let table = synced.split("\n\n").find(|table| table.trim_start().starts_with("W/l1\n"));
        format!("\n\n{}\n", table.expect("a table").trim_matches('\n'))
    });
}

#[test]
fn every_write_has_its_times_and_nobody_is_left_in_a_queue() {
    let Some(place) = with_log() else { return };
    let times = |place: &Place| place.ok("zpool iostat -wvHp tank");
    let before = times(&place);
    write(&place, "mnt/file", WRITES);
    let after = times(&place);
    let more = |which| column(&after, "W/l1", which) - column(&before, "W/l1", which);
    for which in [TOTAL_WRITE, DISK_WRITE, SYNC_WRITE_WAIT] {
        assert!(more(which) >= WRITES, "column {which}: {after}");
    }
    // One writer waits for nobody.
    assert!(cells(&after, "W/l1", "1")[SYNC_WRITE_WAIT] >= WRITES, "{after}");
    let line = place.ok("zpool iostat -lqHp tank");
    let cells: Vec<&str> = line.trim().split('\t').collect();
    assert_eq!(cells.len(), 7 + 11 + 14, "{line}");
    let total: u64 = cells[8].parse().expect("writes took time");
    assert!(total > 1_000, "{total} ns");
    assert!(cells[18..].iter().all(|cell| *cell == "0"), "{line}");
}

#[test]
fn words_that_do_not_go_together_are_refused_as_openzfs_does() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    for (flags, told) in [
        ("-rw", "Only one of [-r|-w] can be passed at a time"),
        ("-rl", "[-r|-w] isn't allowed with [-c|-l|-q]"),
        ("-wq", "[-r|-w] isn't allowed with [-c|-l|-q]"),
        ("-w -q -l", "[-r|-w] isn't allowed with [-c|-l|-q]"),
    ] {
        let printed = place.run(&format!("zpool iostat {flags} tank"));
        assert_eq!((printed.code, printed.out.as_str()), (2, ""), "{flags}");
        assert!(printed.err.starts_with(&format!("{told}\nusage:\n\tiostat ")), "{}", printed.err);
    }
}

/// The figures of `zilstat` with these words, line by line behind the heading.
fn zilstat(place: &Place, words: &str) -> Vec<Vec<String>> {
    let text = place.ok(&format!("zilstat {words} -s ,"));
    let cells = |line: &str| line.trim_end_matches(',').split(',').map(|c| c.trim().to_owned()).collect();
    text.lines().skip(1).map(cells).collect()
}

#[test]
fn zilstat_counts_commits_records_and_blocks_by_dataset_and_of_all() {
    let Some(place) = with_log() else { return };
    place.ok("zfs create tank/db");
    place.ok("zpool sync tank");
    let fields = "-f ds,cc,ic,icc,iic,imsc,imnc,cec,fec";
    let of = |rows: &[Vec<String>], dataset: &str| -> Vec<u64> {
        let row = rows.iter().find(|row| row[0] == dataset);
        row.map_or(vec![0; 8], |row| {
            row[1..].iter().map(|cell| cell.parse().expect("a small number")).collect()
        })
    };
    let before = zilstat(&place, &format!("-a {fields}"));
    write(&place, "mnt/db/file", WRITES);
    let after = zilstat(&place, &format!("-a {fields}"));
    let (db, root) = (of(&after, "tank/db"), of(&after, "tank"));
    assert_eq!((db[0], db[2], db[3]), (WRITES, WRITES, 0), "{after:?}");
    assert!((WRITES..=WRITES + 2).contains(&db[1]), "the file was made, too: {after:?}");
    assert!((WRITES..=WRITES + 2).contains(&db[4]), "{after:?}");
    assert_eq!(db[5..], [0, 0, 0], "none went to the main pool, none failed");
    assert_eq!(root, of(&before, "tank"), "another dataset's");
    assert_eq!(of(&zilstat(&place, &format!("-p tank {fields}")), "tank/db"), db);
    assert_eq!(of(&zilstat(&place, &format!("-d tank/db {fields}")), "tank/db"), db);
    // So many bytes of data: 341.8 KiB.
    assert_eq!(zilstat(&place, "-d tank/db -f icb"), [["341K"]]);
    let all = zilstat(&place, fields);
    assert_eq!(of(&all, "GLOBAL")[0], db[0] + root[0]);
    let heading = place.ok("zilstat").lines().next().map(str::to_owned);
    let want = "    time     cc     ic    idc    idb    iic    iib    imnc    imnw    imsc    imsw  ";
    assert_eq!(heading.as_deref(), Some(want));
}

#[test]
fn zilstat_has_a_link_fields_to_list_and_refusals() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sawmill"), place.path("zilstat")).expect("a link");
    let called = |words: &[&str]| {
        let mut command = Command::new(place.path("zilstat"));
        place.print(command.args(words).env("SAWMILL_RUN", place.path("run")).stdin(Stdio::null()))
    };
    let told = called(&["-v"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert!(told.out.contains("\n       imsw : zil_itx_metaslab_slog_write\n"), "{}", told.out);
    assert!(called(&["-h"]).out.starts_with("sawmill zilstat: "));
    for (words, code, err) in [
        (&["-f", "cc,zimnb,x"][..], 1, "Invalid column definition! -- ['zimnb', 'x']\n"),
        (&["-p", "nope"], 1, "cannot open 'nope': no such pool\n"),
        (&["-d", "tank/nope"], 1, "cannot open 'tank/nope': dataset does not exist\n"),
    ] {
        let printed = called(words);
        assert_eq!((printed.code, printed.err.as_str()), (code, err), "{words:?}");
    }
    for words in [&["-a", "-p", "tank"][..], &["-i", "0"], &["tank"]] {
        assert_eq!(called(words).code, 2, "{words:?}");
    }
    let rows = called(&["-d", "tank", "-f", "pool,obj,cc,se%"]).out;
    assert_eq!(rows.lines().nth(1).map(str::split_whitespace).map(Iterator::count), Some(4), "{rows}");
}

#[test]
fn zilstat_shows_what_is_done_while_it_looks() {
    let Some(place) = with_log() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
    command.args(["zilstat", "-i", "1", "-f", "cc,imsc,p99"]).env("SAWMILL_RUN", place.path("run"));
    let mut looking = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(looking.stdout.take().expect("piped")));
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), " cc/s  imsc/s     p99  ");
    // Something is done in every second, until a whole one has been seen.
    let counts = |line: &str| line.split_whitespace().next().map(str::to_owned).expect("a cell");
    let seen = (0..10).any(|_| {
        write(&place, "mnt/file", WRITES);
        counts(&next()) != "0"
    });
    looking.kill().expect("it still looks");
    looking.wait().expect("it ends");
    assert!(seen);
}
