use super::*;
use crate::view::testing::{captured, p1};
use engine::spec;

fn specs(words: &str) -> Vec<VdevSpec> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    spec::parse(&words, |w| Ok(w.to_owned())).expect("a specification")
}

#[test]
fn a_new_pool_reads_as_captured() {
    let words = "mirror /tmp/w/d3 /tmp/w/d4 log mirror /tmp/w/l4 /tmp/w/l5 cache /tmp/w/l6";
    let tree = layout("p2", None, &specs(words), NameStyle::default());
    let want = captured(&format!("second session: zpool create -n p2 {words}"));
    assert_eq!(format!("would create 'p2' with the following layout:\n\n{tree}"), want);
}

#[test]
fn new_vdevs_come_after_the_old_ones_of_their_section() {
    let tree = layout("p1", Some(&p1()), &specs("mirror /e /f log /g"), NameStyle::default());
    let rows: Vec<&str> = tree.lines().map(|line| &line[1..]).collect();
    assert_eq!(
        rows,
        [
            "p1",
            "  mirror-0",
            "    /tmp/w/d1",
            "    /tmp/w/d2",
            "  mirror",
            "    /e",
            "    /f",
            "logs",
            "  mirror",
            "    /tmp/w/l1",
            "    /tmp/w/l2",
            "  /g",
            "cache",
            "  /tmp/w/c1",
            "spares",
            "  /tmp/w/s1",
        ]
    );
}
