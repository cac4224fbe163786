//! Administration of real pools on files, by the real commands and the real daemon.
#![forbid(unsafe_code)]

mod place;

use place::Place;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A word for each file's contents.
fn contents(place: &Place, names: &[&str]) -> Vec<u64> {
    let hash = |name: &&str| {
        let mut hasher = DefaultHasher::new();
        std::fs::read(place.path(name)).expect("readable").hash(&mut hasher);
        hasher.finish()
    };
    names.iter().map(hash).collect()
}

const HEAD: &str = "invalid vdev specification\nuse '-f' to override the following errors:\n";

#[test]
fn labels_are_cleared_only_where_nobody_needs_them() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    let active = place.run("zpool labelclear -f W/d1");
    assert_eq!(active.code, 1);
    assert!(active.err.starts_with("W/d1 is a member (ACTIVE) of pool \"tank\""), "{}", active.err);
    place.ok("zpool export tank");
    let before = contents(&place, &["d1"]);
    let exported = place.run("zpool labelclear W/d1");
    let want = "use '-f' to override the following error:\nW/d1 is a member of exported pool \"tank\"\n";
    assert_eq!((exported.err.as_str(), exported.code), (want, 1));
    assert_eq!(contents(&place, &["d1"]), before);
    place.ok("zpool labelclear -f W/d1");
    assert_eq!(place.run("zpool import -d W/").err, "no pools available to import\n");
    let again = place.run("zpool labelclear W/d1");
    assert_eq!((again.err.as_str(), again.code), ("failed to clear label for W/d1\n", 255));
    let missing = place.run("zpool labelclear W/nofile");
    assert_eq!(
        (missing.err.as_str(), missing.code),
        ("failed to open W/nofile: No such file or directory\n", 1)
    );
    let relative = place.run("zpool labelclear relative");
    assert_eq!(relative.err, "failed to find device relative, try specifying absolute path instead\n");
    assert_eq!(place.run("zpool labelclear").code, 2);
}

#[test]
fn what_is_refused_changes_no_byte() {
    let place = Place::with_files();
    place.file("small", 63);
    place.file("ext4", 96);
    let mut image = vec![0; 1 << 20];
    image[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    image[0x460] = 0x40;
    std::fs::File::options()
        .write(true)
        .open(place.path("ext4"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, &image))
        .expect("written");
    place.ok("zpool create -m none -o ashift=12 tank W/d1");
    place.ok("zpool sync");
    let names = ["d2", "l1", "l2", "small", "ext4"];
    let before = contents(&place, &names);
    for (line, code, want) in [
        (
            "zpool create p W/small",
            1,
            "cannot create 'p': one or more devices is less than the minimum size (64M)\n",
        ),
        ("zpool create p W/d1", 1, &*format!("{HEAD}W/d1 is part of active pool 'tank'\n")),
        ("zpool create p W/ext4", 1, &*format!("{HEAD}W/ext4 contains a filesystem of type 'ext4'\n")),
        ("zpool create p W/", 1, "cannot use 'W/': must be a block device or regular file\n"),
        (
            "zpool create p W/d2 log raidz W/l1 W/l2",
            1,
            "invalid vdev specification: unsupported 'log' device: raidz\n",
        ),
        (
            "zpool create p W/d2 W/d2",
            1,
            "cannot create 'p': one or more vdevs refer to the same device, or one of\n\
             the devices is part of an active md or lvm device\n",
        ),
        ("zpool create -o bogus=1 p W/d2", 1, "property 'bogus' is not a valid pool or vdev property\n"),
        (
            "zpool create p%q W/d2",
            1,
            "cannot create 'p%q': invalid character '%' in pool name\npool name may have been omitted\n",
        ),
        ("zpool create p W/nofile", 1, "cannot resolve path 'W/nofile'\n"),
        ("zpool create p", 2, ""),
        (
            "zpool add -o ashift=9 tank W/d2",
            1,
            "cannot add to 'tank': adding devices with different physical sector sizes is not allowed\n",
        ),
        ("zpool add tank W/small", 1, "cannot add to 'tank': device is less than the minimum size (64M)\n"),
        (
            "zpool add tank log W/small",
            1,
            "cannot add to 'tank': one or more devices is currently unavailable\n",
        ),
    ] {
        let printed = place.run(line);
        assert_eq!(printed.code, code, "{line}: {}", printed.err);
        if !want.is_empty() {
            assert_eq!(printed.err, want, "{line}");
        }
    }
    assert_eq!(contents(&place, &names), before);
    place.ok("zpool create -f -m none p W/ext4");
}

#[test]
fn a_disk_that_was_given_to_another_pool_is_of_that_pool() {
    let place = Place::with_files();
    for line in
        ["create -m none one mirror W/d1 W/d2", "destroy one", "create -m none two W/d2", "destroy two"]
    {
        place.ok(&format!("zpool {line}"));
    }
    // The first pool still says that its second device is there.
    place.ok("zpool import -d W/ -D -f -a");
    let both = || assert_eq!(place.ok("zpool list -Ho name,health"), "one\tDEGRADED\ntwo\tONLINE\n");
    both();
    for order in [["one", "two"], ["two", "one"]] {
        order.iter().for_each(|pool| drop(place.ok(&format!("zpool export {pool}"))));
        order.iter().for_each(|pool| drop(place.ok(&format!("zpool import -d W/ {pool}"))));
        both();
    }
    let refused = place.run("zpool create -m none three W/d2");
    assert!(refused.err.contains("W/d2 is part of active pool 'two'"), "{}", refused.err);
}

#[test]
fn pool_properties_are_kept_and_told() {
    let place = Place::with_files();
    place.ok("zpool create -m none -o failmode=continue -o ashift=12 tank W/d1");
    place.ok("zfs create tank/boot");
    for setting in ["comment=hello", "autotrim=on", "autoexpand=on", "bootfs=tank/boot", "org.rig:note=mine"]
    {
        place.ok(&format!("zpool set {setting} tank"));
    }
    let told = |name: &str| {
        let list = format!(
            "zpool get -Ho property,value,source failmode,ashift,comment,autotrim,autoexpand,bootfs,\
             org.rig:note,autoreplace {name}"
        );
        place.ok(&list)
    };
    let want = "failmode\tcontinue\tlocal\nashift\t12\tlocal\ncomment\thello\tlocal\nautotrim\ton\tlocal\n\
                autoexpand\ton\tlocal\nbootfs\ttank/boot\tlocal\norg.rig:note\tmine\tlocal\n\
                autoreplace\toff\tdefault\n";
    assert_eq!(told("tank"), want);
    place.ok("zpool export tank");
    place.ok("zpool import -d W/ tank");
    assert_eq!(told("tank"), want);
    place.ok("zfs snapshot tank/boot@last");
    place.ok("zpool set bootfs=tank/boot@last tank");
    assert_eq!(place.ok("zpool get -Ho value,source bootfs tank"), "tank/boot@last\tlocal\n");
    place.ok("zpool set bootfs= tank");
    assert_eq!(place.ok("zpool get -Ho value,source bootfs tank"), "-\tdefault\n");
    place.ok("zpool set org.rig:note= tank");
    assert_eq!(place.ok("zpool get -Ho value,source org.rig:note tank"), "-\tdefault\n");
    let refused = place.run("zpool set bogus=1 tank");
    assert_eq!(refused.err, "cannot set property for 'tank': invalid property 'bogus'\n");
    assert_eq!(
        place.run("zpool set size=1 tank").err,
        "cannot set property for 'tank': 'size' is readonly\n"
    );
    assert_eq!(
        place.run("zpool set failmode=maybe tank").err,
        "cannot set property for 'tank': 'failmode' must be one of 'wait | continue | panic'\n"
    );
    for name in ["autoreplace", "listsnapshots"] {
        place.ok(&format!("zpool create -m none -o {name}=on x W/d2"));
        assert_eq!(place.ok(&format!("zpool get -Ho value,source {name} x")), "on\tlocal\n");
        place.ok("zpool destroy x");
    }
    for as_it_is in ["autoreplace=off", "delegation=on", "listsnapshots=off", "multihost=off"] {
        place.ok(&format!("zpool set {as_it_is} tank"));
    }
    place.ok("zpool export tank");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn datasets_are_renamed_and_properties_taken_back() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create tank/a");
    place.ok("zfs create -o compression=zle tank/a/b");
    place.ok("zfs set compression=lzjb org.rig:x=1 tank/a");
    place.ok("zfs rename tank/a tank/new");
    assert_eq!(place.ok("zfs list -Ho name -r tank"), "tank\ntank/new\ntank/new/b\n");
    assert_eq!(
        place.ok("zfs get -Hro name,value,source compression tank/new"),
        "tank/new\tlzjb\tlocal\ntank/new/b\tzle\tlocal\n"
    );
    assert_eq!(place.ok("zfs get -Ho value,source org.rig:x tank/new/b"), "1\tinherited from tank/new\n");
    place.ok("zfs inherit -r compression tank/new");
    assert_eq!(place.ok("zfs get -Hro value,source compression tank/new"), "on\tdefault\non\tdefault\n");
    place.ok("zfs inherit org.rig:x tank/new");
    assert_eq!(place.ok("zfs get -Ho value,source org.rig:x tank/new/b"), "-\t-\n");
    place.ok("zfs rename -p tank/new/b tank/x/y/z");
    assert_eq!(place.ok("zfs list -Ho name -r tank"), "tank\ntank/new\ntank/x\ntank/x/y\ntank/x/y/z\n");
    for (line, code, want) in [
        ("zfs rename tank/new tank/x", 1, "cannot rename 'tank/new': dataset already exists\n"),
        (
            "zfs rename tank/new other/new",
            1,
            "cannot rename to 'other/new': datasets must be within same pool\n",
        ),
        (
            "zfs rename tank/x tank/x/below",
            1,
            "cannot rename to 'tank/x/below': New dataset name cannot be a descendant of current dataset name\n",
        ),
        ("zfs rename tank/nope tank/q", 1, "cannot open 'tank/nope': dataset does not exist\n"),
        ("zfs rename tank/new tank/no/such", 1, "cannot create 'tank/no/such': parent does not exist\n"),
        ("zfs rename tank/new tank/q%", 1, "cannot rename to 'tank/q%': invalid character '%' in name\n"),
        ("zfs inherit used tank/new", 1, "used property is read-only\n"),
        (
            "zfs inherit quota tank/new",
            1,
            "'quota' property cannot be inherited\nuse 'zfs set quota=none' to clear\n\
             use 'zfs inherit -S quota' to revert to received value\n",
        ),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.code, printed.err.as_str()), (code, want), "{line}");
    }
    place.ok("zfs destroy -r tank/x");
    assert_eq!(place.ok("zfs list -Ho name -r tank"), "tank\ntank/new\n");
    place.ok("zpool export tank");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

/// The table under a heading of what OpenZFS said of a golden pool.
fn table(info: &str, heading: &str) -> Vec<String> {
    let lines = info.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).map(str::to_owned).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn golden_pools_are_listed_as_openzfs_lists_them() {
    for name in ["g10-snapshots-clones", "g12-zvol", "g08-compress", "g01-single-nofeat"] {
        let place = Place::new();
        let images = oracle::golden::copy(name, place.directory.path());
        let info = oracle::golden::text(name, "info.txt");
        place.ok(&format!("zpool import -N -o readonly=on -o cachefile=none -d {} whirl", images.display()));
        let ours = place.ok("zfs list -t all -o name,used,refer,recsize,volblock,compress,checksum,type");
        let theirs = table(&info, "## zfs list -t all");
        let theirs: Vec<_> = theirs.iter().map(|line| words(line)).collect();
        let ours: Vec<_> = ours.lines().map(words).collect();
        // Space of what is neither snapshot nor bookmark changed once more when the pool was exported.
        let fixed = |row: &[&str]| -> Vec<String> {
            let is_kept = matches!(row.last(), Some(&("snapshot" | "bookmark")));
            let is_fixed = |column: usize| column != 1 && (column != 2 || is_kept);
            row.iter()
                .enumerate()
                .filter(|(at, _)| is_fixed(*at))
                .map(|(_, word)| (*word).to_owned())
                .collect()
        };
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (ours.iter().map(|row| fixed(row)).collect(), theirs.iter().map(|row| fixed(row)).collect());
        assert_eq!(ours, theirs, "{name}");
        let snapshots = place.ok("zfs list -H -t snapshot -o name -s createtxg");
        assert!(snapshots.lines().all(|line| line.contains('@')), "{snapshots}");
    }
}

#[test]
fn pools_are_imported_by_guid_under_another_name_and_root_and_from_a_cache_file() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2");
    let guid = place.ok("zpool get -Ho value guid tank");
    let guid = guid.trim();
    place.ok("zpool export -a");
    place.ok(&format!("zpool import -N -d W/ {guid} oak"));
    assert_eq!(place.ok("zpool list -Ho name,guid -p"), format!("oak\t{guid}\n"));
    place.ok("zpool export oak");
    place.ok("zpool import -N -R /alt -d W/ oak");
    assert_eq!(place.ok("zpool get -Ho value altroot,cachefile oak"), "/alt\nnone\n");
    place.ok("zpool export oak");
    place.ok("zpool import -a -N -o readonly=on -d W/d1 -d W/d2");
    assert_eq!(place.ok("zpool get -Ho value readonly,health oak"), "on\nONLINE\n");
    assert_eq!(
        place.run("zpool set comment=no oak").err,
        "cannot set property for 'oak': pool is read-only\n"
    );
    assert_eq!(place.run("zpool scrub oak").err, "cannot scrub oak: pool is read-only\n");
    assert_eq!(place.run("zpool clear oak").err, "cannot clear errors for oak: pool is read-only\n");
    place.ok("zpool export oak");
    let mut leaf = ondisk::NvList::new();
    leaf.add_str("type", "file").add_str("path", place.path("d1").to_string_lossy().into_owned());
    let mut root = ondisk::NvList::new();
    root.add_str("type", "root").add_nvlist_array("children", vec![leaf]);
    let mut pool = ondisk::NvList::new();
    pool.add_nvlist("vdev_tree", root);
    pool.add_u64("pool_guid", guid.parse().expect("a number"));
    let mut cache = ondisk::NvList::new();
    cache.add_nvlist("oak", pool);
    std::fs::write(place.path("cache"), cache.encode()).expect("written");
    let listed = place.ok("zpool import -c W/cache");
    // The other side is found by what the pool itself says of it.
    assert!(listed.contains("  pool: oak\n") && listed.contains(" state: ONLINE\n"), "{listed}");
    assert_eq!(
        place.run("zpool import -c W/no").err,
        "failed to open cache file: No such file or directory\n"
    );
    assert_eq!(place.run("zpool import -c W/d1").code, 1);
    assert_eq!(place.run("zpool import -c W/cache -d W/").code, 2);
    let missing = place.run("zpool import -d W/ nope");
    assert_eq!(missing.err, "cannot import 'nope': no such pool available\n");
}

#[test]
fn features_are_chosen_by_name_and_by_file() {
    let place = Place::with_files();
    place.ok("zpool create -m none -o feature@sha512=disabled -o feature@bookmarks=enabled tank W/d1");
    let told = |names: &str| place.ok(&format!("zpool get -Ho value {names} tank"));
    assert_eq!(told("feature@sha512,feature@bookmarks,feature@edonr"), "disabled\nenabled\nenabled\n");
    place.ok("zpool set feature@sha512=enabled tank");
    assert_eq!(told("feature@sha512"), "enabled\n");
    assert_eq!(place.run("zpool set feature@encryption=enabled tank").code, 1);
    let refused = place.run("zpool create -m none -o compatibility=no-such-file other W/d2");
    assert_eq!(refused.err, "cannot create 'other': could not read/parse feature file(s): no-such-file \n");
    place.ok("zpool export tank");
    place.ok("zpool import -d W/ tank");
    assert_eq!(told("feature@sha512,feature@bookmarks"), "enabled\nenabled\n");
    place.ok("zpool export tank");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

/// What OpenZFS would heed, and nothing does here, promises nothing.
#[test]
fn properties_of_datasets_that_nothing_heeds_are_refused_by_name() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    for unheeded in ["sharenfs=on", "sharesmb=on", "zoned=on"] {
        let name = unheeded.split('=').next().unwrap_or_default();
        let refused = place.run(&format!("zfs set {unheeded} tank"));
        let told = format!("cannot set property for 'tank': property '{name}' is not supported yet\n");
        assert_eq!((refused.err, refused.code), (told, 255));
        let refused = place.run(&format!("zfs create -o {unheeded} tank/x"));
        let told = format!("cannot create 'tank/x': property '{name}' is not supported yet\n");
        assert_eq!((refused.err, refused.code), (told, 1));
        assert_eq!(place.run(&format!("zpool create -m none -O {unheeded} x W/d2")).code, 1);
    }
    place.ok("zfs set sharenfs=off snapdir=hidden aclmode=discard nbmand=off tank");
    place.ok("zfs create -o sharenfs=off -o snapdir=hidden tank/x");
    assert_eq!(place.ok("zfs get -Ho value,source sharenfs tank/x"), "off\tlocal\n");
}

#[test]
fn a_pool_that_has_unheeded_properties_set_is_imported_and_shows_them() {
    use dsl::PropValue::{Number, Text};
    let place = Place::with_files();
    let engine = sawmill::Engine::start();
    engine.block_on(async {
        let pool = engine.create("tank", &[sawmill::Vdev::disk(place.path("d1"))]).await.expect("made");
        pool.inner().set_pool_prop("autoreplace", Some(Number(1))).await.expect("set");
        pool.inner().set_prop("tank", "sharenfs", Some(Text("on".into()))).await.expect("set");
        pool.export().await.expect("exported");
    });
    place.ok("zpool import -N -d W/ tank");
    assert_eq!(place.ok("zpool get -Ho value,source autoreplace tank"), "on\tlocal\n");
    assert_eq!(place.ok("zfs get -Ho value,source sharenfs tank"), "on\tlocal\n");
    place.ok("zpool set autoreplace=on tank");
    place.ok("zpool set autoreplace=off tank");
    place.ok("zfs set sharenfs=on tank");
    place.ok("zfs set sharenfs=off tank");
    assert_eq!(place.ok("zpool get -Ho value,source autoreplace tank"), "off\tdefault\n");
    assert_eq!(place.run("zfs set sharenfs=on tank").code, 255);
}

/// The name of the pool in the labels of a device.
fn name_in_labels(place: &Place, device: &str) -> String {
    let output = std::process::Command::new("zdb").arg("-l").arg(place.path(device)).output().expect("zdb");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = shown.lines().find_map(|line| line.trim().strip_prefix("name: '"));
    name.unwrap_or_else(|| panic!("{shown}")).trim_end_matches('\'').to_owned()
}

fn pools(place: &Place) -> String {
    place.ok("zpool list -H -o name")
}

#[test]
fn a_temporary_name_lasts_until_the_export() {
    let place = Place::with_files();
    place.ok("zpool create -m none -t build rpool W/d1");
    assert_eq!(pools(&place), "build\n");
    assert_eq!(place.ok("zpool get -H -o value cachefile build"), "none\n");
    place.ok("zfs create build/root");
    place.ok("zpool set comment=hello build");
    place.ok("zpool sync");
    assert_eq!(name_in_labels(&place, "d1"), "rpool");
    // A pool of that name may be open, too.
    place.ok("zpool create -m none rpool W/d2");
    place.ok("zpool export build");
    assert_eq!(name_in_labels(&place, "d1"), "rpool");
    place.ok("zpool export rpool");

    place.ok("zpool import -N -t -d W/d1 rpool other");
    assert_eq!(pools(&place), "other\n");
    assert_eq!(place.ok("zfs list -H -o name -r other"), "other\nother/root\n");
    place.ok("zpool export other");
    place.ok("zpool import -N -d W/d1 rpool");
    assert_eq!(pools(&place), "rpool\n");
    assert_eq!(place.ok("zpool get -H -o value comment rpool"), "hello\n");
    place.ok("zpool export rpool");

    // A daemon that ends does not make the name a lasting one.
    place.ok("zpool import -N -t -o cachefile= -d W/d1 rpool brief");
    place.ok("zpool set comment=again brief");
    place.kill();
    assert_eq!(pools(&place), "brief\n");
    place.ok("zpool set comment=more brief");
    place.ok("zpool export brief");
    assert_eq!(name_in_labels(&place, "d1"), "rpool");
}

#[test]
fn the_default_cache_file_is_no_file_of_its_own() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    place.ok("zpool set cachefile=W/run/zpool.cache tank");
    assert_eq!(place.ok("zpool get -H -o value,source cachefile tank"), "-\tdefault\n");
    place.kill();
    assert_eq!(pools(&place), "tank\n", "the daemon's own list has the pool");
}

#[test]
fn snapshots_are_listed_without_being_asked_for_where_the_pool_says_so() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    place.ok("zpool create -m none silent W/d2");
    for name in ["tank@a", "silent@a"] {
        place.ok(&format!("zfs snapshot {name}"));
    }
    let names = |words: &str| place.ok(&format!("zfs list -H -o name {words}"));
    assert_eq!(names(""), "silent\ntank\n");
    place.ok("zpool set listsnapshots=on tank");
    assert_eq!(names(""), "silent\ntank\ntank@a\n");
    assert_eq!(names("-r tank"), "tank\ntank@a\n");
    assert_eq!(names("tank"), "tank\n");
    assert_eq!(names("-t filesystem"), "silent\ntank\n");
    place.ok("zpool set listsnaps=off tank");
    assert_eq!(names(""), "silent\ntank\n");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let place = Place::with_files();
    place.ok("zpool create -m none -O encryption=off tank W/d1 spare W/d2");
    place.ok("zfs create -V 8M tank/volume");
    place.ok("zfs snapshot -r tank@a");
    for (line, code, want) in [
        ("zpool clear tank W/d2", 1, "cannot clear errors for W/d2: device is reserved as a hot spare\n"),
        (
            "zpool set bootfs=tank/volume tank",
            1,
            "cannot set property for 'tank': 'tank/volume' is not a file system\n",
        ),
        (
            "zpool set bootfs=tank/volume@a tank",
            1,
            "cannot set property for 'tank': 'tank/volume@a' is not a file system\n",
        ),
        ("zpool resilver", 2, "missing pool name argument\n"),
        ("zpool prefetch -t other tank", 2, "unsupported prefetch type 'other'\n"),
        ("zfs send -i @a -i @a tank@a", 2, "usage:\n"),
        ("zfs receive -x atime=off tank/new", 2, "invalid character '=' in property argument\n"),
        ("zfs receive -x version tank/new", 1, "cannot receive: invalid property 'version'\n"),
        ("zfs receive -x utf8only tank/new", 1, "cannot receive: invalid property 'utf8only'\n"),
        ("zfs get all,used tank", 2, "bad property list: invalid property 'all'\n"),
    ] {
        let printed = place.run(line);
        assert_eq!(printed.code, code, "{line}: {}", printed.err);
        assert!(printed.err.starts_with(want), "{line}: {}", printed.err);
    }
    let direct = place.ok("zpool status -d tank");
    let of_device = direct.lines().find(|line| line.contains("/d1 ")).expect("a line");
    assert!(
        direct.contains("READ WRITE CKSUM   DIO\n") && of_device.ends_with("0     0     0     0"),
        "{direct}"
    );
    assert_eq!(place.ok("zfs list -H -d 0 -t snapshot tank"), "");
    place.ok("zfs create -o userquota@root=1G tank/quota");
    assert_eq!(place.ok("zfs get -H -o value userquota@root tank/quota"), "1G\n");
    place.ok("zpool prefetch tank");
    place.ok("zpool prefetch -t brt tank");
    place.ok("zpool resilver tank");
}
