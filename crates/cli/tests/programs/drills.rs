//! Blocks of files that cannot be read on order (`zinject -t data`).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::mounted::World;

const RECORD_BYTES: usize = 128 << 10;
const RECORDS: usize = 8;
/// What the kernel says of a read that fails (`EIO`).
const INPUT_OUTPUT_ERROR: i32 = 5;

fn zinject(world: &World, line: &str) -> String {
    let output = world.run("zinject", line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Which records of a file can be read.
fn readable(file: &Path) -> Vec<bool> {
    let mut record = vec![0; RECORD_BYTES];
    let file = File::open(file).expect("opened");
    let mut read = |number: usize| match file.read_exact_at(&mut record, (number * RECORD_BYTES) as u64) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(INPUT_OUTPUT_ERROR), "{error}");
            false
        }
    };
    (0..RECORDS).map(&mut read).collect()
}

#[test]
fn reads_of_blocks_fail_on_order_and_no_longer() {
    let Some(world) = World::new("mirror a b", 256) else { return };
    world.link("zinject");
    let file = world.root().join("file");
    let content: Vec<u8> = (0..RECORDS * RECORD_BYTES).map(|at| (at / 3 % 251) as u8).collect();
    fs::write(&file, &content).expect("written");
    world.zpool("sync tank");
    let path = file.display();
    let added = zinject(&world, &format!("-a -t data -e io -T read -r 131072,393216 {path}"));
    assert!(added.contains("dataset: tank\n") && added.contains(" range: [131072, 393215]\n"), "{added}");
    assert_eq!(readable(&file), [true, false, false, true, true, true, true, true]);
    let status = world.zpool("status tank");
    assert!(status.contains(" 1 data errors") || status.contains(" 2 data errors"), "{status}");
    assert_eq!(zinject(&world, "-c all"), "removed all registered handlers\n");
    zinject(&world, &format!("-a -t data -e checksum -f 100 {path}"));
    assert_eq!(readable(&file), [false; RECORDS]);
    let listed = zinject(&world, "");
    let of_file = listed.lines().find(|line| line.starts_with("  ")).expect("a line");
    assert!(listed.contains("OBJSET") && of_file.contains("  data        0  all  "), "{listed}");
    // A scrub finds the blocks, too, and cannot repair them.
    world.zpool("scrub -w tank");
    let status = world.zpool("status -v tank");
    assert!(status.contains(&format!("        {path}\n")), "{status}");
    zinject(&world, "-c all");
    assert_eq!(fs::read(&file).expect("read"), content);
    world.zpool("clear tank");
    world.zpool("scrub -w tank");
    world.zpool("scrub -w tank");
    let status = world.zpool("status tank");
    assert!(status.contains("errors: No known data errors"), "{status}");
    world.finish();
}
