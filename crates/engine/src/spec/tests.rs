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
        ("draid2:3d a b c", "draid2:3d is not supported"),
    ] {
        assert_eq!(read(words), Err(format!("invalid vdev specification: {reason}")), "{words}");
    }
}

#[test]
fn a_device_that_cannot_be_resolved_ends_it() {
    let words = ["a".to_owned()];
    let gone = Failure::new(FailureKind::Invalid, "cannot resolve path '/a'");
    assert_eq!(parse(&words, |_| Err(gone.clone())), Err(gone));
}
