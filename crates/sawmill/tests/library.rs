//! The library as its users see it: pools in memory, and golden pools for snapshots and volumes.

use oracle::golden;
use oracle::zdb::Zdb;
use sawmill::blocking::{Engine, Files};
use sawmill::{Error, FileKind, Import, Vdev, VolumeSpec};

const DISK_BYTES: u64 = 128 << 20;

fn names(files: &Files, dir: &str) -> Vec<String> {
    let entries = files.list(dir).expect("a directory");
    entries.into_iter().map(|entry| String::from_utf8(entry.name).expect("text")).collect()
}

#[test]
fn what_was_written_by_path_is_found_by_path_after_an_export_and_zdb_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let disks = ["a", "b"].map(|name| dir.path().join(name));
    for disk in &disks {
        std::fs::File::create(disk).unwrap().set_len(DISK_BYTES).unwrap();
    }
    let engine = Engine::start();
    let pool = engine.create("tank", &[Vdev::disk(&disks[0]), Vdev::disk(&disks[1]).as_log()]).unwrap();
    pool.create_filesystem("tank/home").unwrap();
    let files = pool.filesystem("tank/home").unwrap();
    files.create_dir("/docs").unwrap();
    files.write("/docs/one", &[7; 300_000]).unwrap();
    files.write_at("docs/one", 300_000, b"end").unwrap();
    files.symlink("docs/../docs", "/link").unwrap();
    files.write("/link/two", b"by way of the link").unwrap();
    files.rename("/docs/two", "/docs/renamed").unwrap();
    files.write("/gone", b"").unwrap();
    files.remove("/gone").unwrap();
    files.fsync("/docs/one").unwrap();
    drop(files);
    pool.export().unwrap();
    Zdb::new(dir.path(), "tank").check().unwrap();

    let pool = engine.import("tank", &disks).unwrap();
    assert_eq!(pool.datasets().unwrap(), ["tank", "tank/home"]);
    let files = pool.filesystem("tank/home").unwrap();
    assert_eq!(names(&files, "/"), ["docs", "link"]);
    assert_eq!(names(&files, "docs"), ["one", "renamed"]);
    assert_eq!(files.metadata("link").unwrap().kind, FileKind::Directory);
    assert_eq!(files.read_link("link").unwrap(), b"docs/../docs");
    let mut end = [0; 8];
    assert_eq!(files.read_at("docs/one", 299_999, &mut end).unwrap(), 4);
    assert_eq!(end[..4], *b"\x07end");
    assert_eq!(files.read("link/renamed").unwrap(), b"by way of the link");
    drop(files);
    pool.export().unwrap();
}

#[test]
fn what_is_missing_is_named_and_links_are_not_followed_for_ever() {
    let engine = Engine::start();
    let disk = engine.ram_disk("only", DISK_BYTES);
    let pool = engine.create("tank", &[Vdev::disk(&disk)]).unwrap();
    let files = pool.filesystem("tank").unwrap();
    assert_eq!(files.read("no/such").unwrap_err().to_string(), "no/such: not found");
    assert!(matches!(pool.filesystem("tank/no"), Err(Error::Pool(_))));
    files.symlink("b", "a").unwrap();
    files.symlink("a", "b").unwrap();
    assert!(matches!(files.read("a"), Err(Error::TooManyLinks { .. })));
    files.symlink("/etc", "out").unwrap();
    assert!(matches!(files.read("out/passwd"), Err(Error::LeadsOut { .. })));
    assert_eq!(files.metadata("../../..").unwrap().kind, FileKind::Directory);
    drop(files);
    pool.export().unwrap();
}

#[test]
fn snapshots_and_volumes_of_a_foreign_pool_are_read() {
    let images = golden::images("g10-snapshots-clones");
    let engine = Engine::start();
    let pool = engine.import_as(&Import::named("whirl", &images).read_only()).unwrap();
    let now = pool.filesystem("whirl/promoted").unwrap();
    let then = pool.filesystem("whirl/promoted@s1").unwrap();
    assert_eq!(then.metadata("t4096").unwrap().size, 4096);
    assert!(now.metadata("t4096").is_err());
    assert!(matches!(then.write("x", b""), Err(Error::File { .. })));
    let volume = pool.volume("whirl/vol@v").unwrap();
    let mut bytes = vec![0; 4096];
    assert_eq!(volume.size_bytes(), 4 << 20);
    assert_eq!(volume.read((4 << 20) - 100, &mut bytes).unwrap(), 100);
}

#[test]
fn a_volume_is_made_written_resized_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("a");
    std::fs::File::create(&disk).unwrap().set_len(DISK_BYTES).unwrap();
    let engine = Engine::start();
    let pool = engine.create("tank", &[Vdev::disk(&disk)]).unwrap();
    pool.create_volume("tank/v", VolumeSpec { size_bytes: 1 << 20, block_bytes: 4096 }).unwrap();
    let volume = pool.open_volume("tank/v").unwrap();
    volume.write(5000, &[7; 10_000], true).unwrap();
    volume.free(6000, 1000, false).unwrap();
    volume.resize(3 * 4096).unwrap();
    assert!(matches!(volume.write(3 * 4096, &[1], false), Err(Error::Pool(_))), "past the end");
    drop(volume);
    pool.export().unwrap();
    Zdb::new(dir.path(), "tank").check().unwrap();
    let pool = engine.import("tank", &[disk]).unwrap();
    let volume = pool.volume("tank/v").unwrap();
    let mut bytes = vec![1; 20_000];
    assert_eq!(volume.read(4000, &mut bytes).unwrap(), 3 * 4096 - 4000);
    let expected: Vec<u8> =
        (4000..3 * 4096).map(|at| if at < 5000 || (6000..7000).contains(&at) { 0 } else { 7 }).collect();
    assert!(bytes[..expected.len()] == expected);
    assert!(volume.write(0, &[1], false).is_err(), "it is only looked at");
    pool.export().unwrap();
}
