//! Volumes by the real commands and the real daemon: made, resized, written past the daemon, kept, cloned, sent.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;
use std::process::Stdio;

const MIB: u64 = 1 << 20;

/// A pool of 512 MiB in a directory of its own.
fn pool() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("dev")).expect("a directory");
    place.file("dev/d1", 512);
    place.ok("zpool create -m none -o ashift=12 p W/dev/d1");
    place
}

fn refuses(place: &Place, line: &str, code: i32, want: &str) {
    let printed = place.run(line);
    assert_eq!((printed.err.as_str(), printed.code), (format!("{want}\n").as_str(), code), "{line}");
    assert_eq!(printed.out, "", "{line}");
}

/// What OpenZFS sets aside for a volume on plain vdevs, reckoned by hand: its blocks, and twice 128 KiB for each block of
/// pointers and each of the seven of dnodes.
fn room(bytes: u64, pointing: u64) -> u64 {
    bytes + (7 + pointing) * 2 * 128 * 1024
}

fn value(place: &Place, property: &str, name: &str) -> String {
    place.ok(&format!("zfs get -Hpo value,source {property} {name}")).trim_end().replace('\t', " ")
}

#[test]
fn a_volume_that_would_be_made_is_told() {
    let place = pool();
    let reserved = room(100 * MIB, 7 + 1);
    assert_eq!(
        place.ok("zfs create -nv -V 100M p/v"),
        format!("would create p/v\n\tvolsize=104857600\n\trefreservation={reserved}\n")
    );
    assert_eq!(
        place.ok("zfs create -nP -p -V 100M -o compression=lz4 p/a/v"),
        format!(
            "create_ancestors\tp/a/v\ncreate\tp/a/v\nproperty\tvolsize\t104857600\n\
             property\tcompression\tlz4\nproperty\trefreservation\t{reserved}\n"
        )
    );
    // Rounded up to whole blocks, and nothing set aside.
    assert_eq!(place.ok("zfs create -nv -s -V 100000 p/v"), "would create p/v\n\tvolsize=114688\n");
    let small = place.run("zfs create -nv -b 8k -V 100M p/v");
    let reserved = room(100 * MIB, 13 + 1);
    assert_eq!(
        small.out,
        format!("would create p/v\n\tvolblocksize=8192\n\tvolsize=104857600\n\trefreservation={reserved}\n")
    );
    assert_eq!(
        small.err,
        "Warning: volblocksize (8192) is less than the default minimum block size (16384).\n\
         To reduce wasted space a volblocksize of 16384 is recommended.\n"
    );
    assert_eq!(place.ok("zfs create -nv -o sync=always p/fs"), "would create p/fs\n\tsync=always\n");
    assert_eq!(place.ok("zfs list -Ho name"), "p\n", "nothing was made");
    assert!(!place.ok("zpool history p").contains("zfs create"), "nor noted");
}

#[test]
fn a_volume_that_cannot_be_is_refused_as_openzfs_refuses_it() {
    let place = pool();
    let usage = |line: &str, want: &str| {
        let printed = place.run(line);
        assert_eq!(printed.code, 2, "{line}");
        assert!(printed.err.starts_with(&format!("{want}\nusage:\n")), "{line}: {}", printed.err);
    };
    usage("zfs create -s p/v", "'-s' and '-b' can only be used when creating a volume");
    usage("zfs create -b 8k p/v", "'-s' and '-b' can only be used when creating a volume");
    usage("zfs create -u -V 1M p/v", "'-u' can only be used when creating a filesystem");
    usage("zfs create -V 1M", "missing volume argument");
    place.ok("zfs create -s -V 1M p/there");
    for (line, want) in [
        ("zfs create -V 0 p/v", "cannot create 'p/v': volume size cannot be zero"),
        ("zfs create -nV 0 p/v", "cannot verify 'p/v': volume size cannot be zero"),
        ("zfs create -V x p/v", "bad volume size 'x': bad numeric value 'x'"),
        ("zfs create -V 1M -b 1Q p/v", "bad volume block size '1Q': invalid numeric suffix 'Q'"),
        (
            "zfs create -V 1M -b 1000 p/v",
            "cannot create 'p/v': 'volblocksize' must be power of 2 from 512B to 16M",
        ),
        ("zfs create -V 1T p/v", "cannot create 'p/v': out of space"),
        ("zfs create -o quota=1M -o reservation=2M p/fs", "cannot create 'p/fs': out of space"),
        ("zfs create -o refreservation=2M -o refquota=1M p/fs", "cannot create 'p/fs': out of space"),
        ("zfs create -o refreservation=2M -o quota=1M p/fs", "cannot create 'p/fs': out of space"),
        ("zfs create -sV 8E p/v", "cannot create 'p/v': volume size exceeds limit for this system"),
        ("zfs create -V 1M nope/v", "cannot open 'nope': no such pool"),
        ("zfs create -V 1M p/no/v", "cannot create 'p/no/v': parent does not exist"),
        ("zfs create -V 1M p/there", "cannot create 'p/there': dataset already exists"),
        ("zfs create p/there/fs", "cannot create 'p/there/fs': parent is not a filesystem"),
        (
            "zfs create -V 1M -o mountpoint=/x p/v",
            "cannot create 'p/v': 'mountpoint' does not apply to datasets of this type",
        ),
        (
            "zfs create -o volsize=1M p/fs",
            "cannot create 'p/fs': 'volsize' does not apply to datasets of this type",
        ),
        (
            "zfs create -o refreservation=auto p/fs",
            "cannot create 'p/fs': 'refreservation=auto' only allowed on volumes",
        ),
        (
            "zfs create -V 1M -o reservation=auto p/v",
            "cannot create 'p/v': 'auto' is invalid value for 'reservation'",
        ),
    ] {
        refuses(&place, line, 1, want);
    }
    refuses(
        &place,
        "zfs rename p/there p/there/below",
        1,
        "cannot rename to 'p/there/below': New dataset name cannot be a descendant of current dataset name",
    );
    assert_eq!(place.ok("zfs list -Ho name"), "p\np/there\n");
    // In pools without larger blocks the bound is another.
    place.file("dev/d2", 128);
    place.ok("zpool create -m none -d -o feature@async_destroy=enabled q W/dev/d2");
    refuses(
        &place,
        "zfs create -V 1M -b 256K q/v",
        1,
        "cannot create 'q/v': 'volblocksize' must be power of 2 from 512B to 128K",
    );
    refuses(
        &place,
        "zfs set recordsize=256K q",
        255,
        "cannot set property for 'q': 'recordsize' must be power of 2 from 512B to 128K",
    );
}

#[test]
fn a_volume_gets_another_size_and_what_is_set_aside_follows() {
    let place = pool();
    place.ok("zfs create -V 64M p/v");
    let of = |property: &str| value(&place, property, "p/v");
    assert_eq!(of("volsize"), format!("{} local", 64 * MIB));
    assert_eq!(of("volblocksize"), "16384 default");
    assert_eq!(of("refreservation"), format!("{} local", room(64 * MIB, 4 + 1)));
    assert_eq!(of("used"), format!("{} -", room(64 * MIB, 4 + 1)));
    assert_eq!(
        place.ok("zfs list -Ho name,volsize,refreservation,mountpoint -t volume"),
        "p/v\t64M\t67M\t-\n"
    );
    place.ok("zfs set volsize=128M p/v");
    assert_eq!(of("refreservation"), format!("{} local", room(128 * MIB, 8 + 1)));
    place.ok("zfs set volsize=32M p/v");
    assert_eq!(of("refreservation"), format!("{} local", room(32 * MIB, 2 + 1)));
    assert_eq!(of("volsize"), format!("{} local", 32 * MIB));
    place.ok("zfs set refreservation=none p/v");
    place.ok("zfs set volsize=64M p/v");
    assert_eq!(of("refreservation"), "0 local", "it was none");
    place.ok("zfs set refreservation=auto p/v");
    assert_eq!(of("refreservation"), format!("{} local", room(64 * MIB, 4 + 1)));
    place.ok("zfs set volsize=16M refreservation=5M p/v");
    assert_eq!(
        (of("volsize"), of("refreservation")),
        (format!("{} local", 16 * MIB), format!("{} local", 5 * MIB))
    );
    place.ok("zfs set volsize=32M refreservation=auto volmode=dev snapdev=visible volthreading=off p/v");
    assert_eq!(of("refreservation"), format!("{} local", room(32 * MIB, 2 + 1)));
    assert_eq!(
        [of("volmode"), of("snapdev"), of("volthreading")],
        ["dev local", "visible local", "off local"]
    );
    let cannot = |line: &str, reason: &str| {
        refuses(&place, line, 255, &format!("cannot set property for 'p/v': {reason}"));
    };
    cannot("zfs set volsize=10000 p/v", "'volsize' must be a multiple of volume block size (16K)");
    cannot("zfs set volsize=0 p/v", "'volsize' cannot be zero");
    cannot("zfs set volsize=none p/v", "'volsize' cannot be zero");
    cannot("zfs set volblocksize=8K p/v", "'volblocksize' is readonly");
    cannot("zfs set volsize=1T p/v", "size is greater than available space");
    cannot("zfs set refreservation=1T p/v", "size is greater than available space");
    cannot("zfs set recordsize=8K p/v", "'recordsize' does not apply to datasets of this type");
    assert_eq!(of("volsize"), format!("{} local", 32 * MIB), "as it was");
    place.ok("zfs snapshot p/v@s");
    assert_eq!(value(&place, "volsize", "p/v@s"), format!("{} local", 32 * MIB));
    assert_eq!(value(&place, "volblocksize", "p/v@s"), "- -");
    place.ok("zfs set readonly=on p/v");
    cannot("zfs set volsize=64M p/v", "dataset is read-only");
    assert!(place.ok("zpool history p").contains("zfs set volsize=128M p/v"));
}

/// What a command that must succeed writes to standard output.
fn bytes(place: &Place, line: &str) -> Vec<u8> {
    let output = place.command(line).output().expect("the program runs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Noise with a hole in it.
fn image(seed: u64, len: usize) -> Vec<u8> {
    let mut noise = vec![0; len];
    let mut word = seed;
    for byte in &mut noise {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (word >> 56) as u8;
    }
    noise[len / 4..len / 2].fill(0);
    noise
}

#[test]
fn volumes_are_written_kept_rolled_back_cloned_and_sent() {
    let place = pool();
    let len = 4 * MIB as usize;
    let (first, second) = (image(1, len), image(2, len - 10_000));
    std::fs::write(place.path("first"), &first).expect("written");
    std::fs::write(place.path("second"), &second).expect("written");
    let away = |work: &dyn Fn()| {
        place.ok("zpool export p");
        work();
        place.ok("zpool import -N -d W/dev p");
    };
    place.ok("zfs create -s -b 16k -V 4M p/v");
    place.ok("zfs create -s -V 1M p/small");
    away(&|| {
        place.ok("cp -d W/dev W/first p/v:");
        refuses(
            &place,
            "cp -d W/dev W/first p/small:",
            1,
            "cp: 'W/first': 4194304 bytes do not fit into a volume of 1048576",
        );
    });
    place.ok("zfs snapshot p/v@a");
    away(&|| {
        place.ok("cp -d W/dev W/second p/v:");
        refuses(&place, "cp -d W/dev W/second p/v@a:", 1, "cannot open 'p/v@a': snapshots do not change");
    });
    place.ok("zfs clone p/v@a p/c");
    place.ok("zfs rename p/v p/w");
    let stream = bytes(&place, "zfs send p/w@a");
    let mut receiving = place.command("zfs receive p/r");
    let mut child = receiving.stdin(Stdio::piped()).spawn().expect("it runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), &stream).expect("it takes all");
    assert!(child.wait().expect("it ends").success(), "{}", place.log());
    assert_eq!(place.ok("zfs list -Ho name -t volume"), "p/c\np/r\np/small\np/w\n");
    assert_eq!(value(&place, "volsize", "p/r"), format!("{} local", 4 * MIB));
    assert_eq!(value(&place, "origin", "p/c"), "p/w@a -");
    let mut now = second.clone();
    now.extend(&first[second.len()..]);
    away(&|| {
        for (name, want) in
            [("p/w", &now), ("p/w@a", &first), ("p/c", &first), ("p/r", &first), ("p/r@a", &first)]
        {
            assert!(bytes(&place, &format!("cat -d W/dev {name}")) == *want, "{name}");
            assert!(bytes(&place, &format!("cat -d W/dev {name}:")) == *want, "{name}:");
        }
        place.ok("cp -d W/dev p/w@a: W/copy");
        place.ok("cp -d W/dev p/w: W/");
    });
    assert!(std::fs::read(place.path("copy")).expect("copied") == first);
    assert!(std::fs::read(place.path("w")).expect("copied") == now);
    place.ok("zfs rollback p/w@a");
    place.ok("zfs destroy -R p/w@a");
    place.ok("zfs destroy p/small");
    assert_eq!(place.ok("zfs list -Ho name -t all -r p"), "p\np/r\np/r@a\np/w\n");
    place.ok("zpool export p");
    assert!(bytes(&place, "cat -d W/dev p/w") == first, "rolled back");
    Zdb::new(&place.path("dev"), "p").check().unwrap_or_else(|damage| panic!("{damage}"));
}
