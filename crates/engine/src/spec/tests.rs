use super::*;

fn read(words: &str) -> Result<Vec<VdevSpec>, String> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    parse(&words, |w| Ok(format!("/dev/{w}"))).map_err(|f| f.stderr.join("\n"))
}

fn spec(class: VdevClass, layout: Layout, devices: &str) -> VdevSpec {
    let devices = devices.split_whitespace().map(|d| format!("/dev/{d}")).collect();
    VdevSpec { class, layout, devices }
}

#[test]
fn each_plain_device_is_a_vdev_of_its_own() {
    let want = vec![
        spec(VdevClass::Normal, Layout::Single, "a"),
        spec(VdevClass::Normal, Layout::Single, "b"),
        spec(VdevClass::Log, Layout::Single, "c"),
        spec(VdevClass::Log, Layout::Single, "d"),
    ];
    assert_eq!(read("a b log c d"), Ok(want));
}

#[test]
fn mirrors_end_where_the_next_keyword_begins() {
    let want = vec![
        spec(VdevClass::Normal, Layout::Mirror, "a b"),
        spec(VdevClass::Normal, Layout::Mirror, "c d e"),
        spec(VdevClass::Log, Layout::Mirror, "f g"),
        spec(VdevClass::Log, Layout::Mirror, "h i"),
    ];
    assert_eq!(read("mirror a b mirror c d e log mirror f g mirror h i"), Ok(want));
}

#[test]
fn classes_may_come_in_any_order() {
    let want = vec![
        spec(VdevClass::Spare, Layout::Single, "s"),
        spec(VdevClass::Log, Layout::Single, "l"),
        spec(VdevClass::Cache, Layout::Single, "c"),
        spec(VdevClass::Normal, Layout::Raidz { parity: 2 }, "x y z"),
    ];
    assert_eq!(read("spare s log l cache c raidz2 x y z"), Ok(want));
}

#[test]
fn impossible_specifications_are_refused_in_the_known_words() {
    for (words, reason) in [
        ("a log raidz b c", "unsupported 'log' device: raidz"),
        ("a log raidz2 b c d", "unsupported 'log' device: raidz"),
        ("a log draid b c", "unsupported 'log' device: draid"),
        ("a log b log c", "'log' can be specified only once"),
        ("a cache b cache c", "'cache' can be specified only once"),
        ("a log", "log requires at least 1 device"),
        ("log", "at least one toplevel vdev must be specified"),
        ("", "at least one toplevel vdev must be specified"),
        ("log mirror a", "mirror requires at least 2 devices"),
        ("mirror a", "mirror requires at least 2 devices"),
        ("raidz3 a b c", "raidz3 requires at least 4 devices"),
        ("a cache", "cache requires at least 1 devices"),
        ("draid3 a b c", "draid3 requires at least 4 devices"),
        ("draid:1s a b c", "distributed spares are not supported yet"),
    ] {
        assert_eq!(read(words), Err(format!("invalid vdev specification: {reason}")), "{words}");
    }
}

#[test]
fn a_draid_has_groups_of_eight_columns_of_data_unless_somebody_says_another_number() {
    for (words, parity, data) in [
        ("draid a b", 1, 1),
        ("draid1 a b c d", 1, 3),
        ("draid2:2d a b c d e", 2, 2),
        ("draid:5C:2D:0s a b c d e", 1, 2),
        ("draid3 a b c d e f g h i j k l m", 3, 8),
    ] {
        let (_, devices) = words.split_once(' ').expect("devices");
        let want = spec(VdevClass::Normal, Layout::Draid { parity, data }, devices);
        assert_eq!(read(words), Ok(vec![want]), "{words}");
    }
}

/// These stand without the words that come before others.
#[test]
fn a_draid_that_cannot_be_is_refused_in_the_known_words() {
    for (words, told) in [
        ("draid:4c a b c", "invalid number of dRAID children; 4 required but 3 provided"),
        (
            "draid2:3s a b c d e",
            "request number of distributed spares 3 and parity level 2\nleaves no disks available for data",
        ),
        (
            "draid2:4d a b c d e",
            "requested number of dRAID data disks per group 4 is too high,\n\
             at most 3 disks are available for data",
        ),
        (
            "draid:0d a b c",
            "requested number of dRAID data disks per group 0 is too high,\n\
             at most 2 disks are available for data",
        ),
        ("draid:2x a b c", "invalid dRAID syntax; expected [:<number><c|d|s>] not 'draid:2x'"),
        ("draid: a b c", "invalid dRAID syntax; expected [:<number><c|d|s>] not 'draid:'"),
    ] {
        assert_eq!(read(words), Err(told.to_owned()), "{words}");
    }
    // No words for a draid: devices, then.
    assert_eq!(read("draid4 draid01").map(|specs| specs.len()), Ok(2));
}

#[test]
fn a_device_that_cannot_be_resolved_ends_it() {
    let words = ["a".to_owned()];
    let gone = Failure::new(FailureKind::Invalid, "cannot resolve path '/a'");
    assert_eq!(parse(&words, |_| Err(gone.clone())), Err(gone));
}
