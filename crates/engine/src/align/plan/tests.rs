use super::*;

/// A dataset. Snapshots are named by their guids, and the origin is a full name.
fn member(name: &str, origin: Option<&str>, snaps: &[u64]) -> Member {
    Member {
        name: name.to_owned(),
        origin: origin.map(|name| name.split('@').nth(1).and_then(|guid| guid.parse().ok()).expect("a guid")),
        origin_name: origin.map(str::to_owned),
        snaps: snaps.iter().map(|guid| (guid.to_string(), *guid)).collect(),
        ..Member::default()
    }
}

/// Returns the first steps of a tree at `q` that is aligned with a tree at `p`.
fn steps(local: &[Member], theirs: &[Member]) -> Vec<AlignStep> {
    let wanted: Vec<String> = theirs.iter().map(|member| member.name.replacen('p', "q", 1)).collect();
    let theirs = Package { recursive: true, members: theirs.to_vec(), ..Package::default() };
    Alignment { local, theirs: &theirs, wanted: &wanted, root: "q", force: true }.steps()
}

fn promote(name: &str) -> AlignStep {
    AlignStep::Promote(name.to_owned())
}

fn rename(name: &str, new: &str) -> AlignStep {
    AlignStep::Rename(name.to_owned(), new.to_owned())
}

fn destroy(name: &str) -> AlignStep {
    AlignStep::Destroy(name.to_owned())
}

#[test]
fn a_tree_that_is_the_sender_s_has_no_steps() {
    let theirs = [member("p", None, &[1]), member("p/a", None, &[2]), member("p/c", Some("p/a@2"), &[3])];
    let local = [member("q", None, &[1]), member("q/a", None, &[2]), member("q/c", Some("q/a@2"), &[3])];
    assert_eq!(steps(&local, &theirs), []);
}

#[test]
fn a_promotion_is_followed_along_a_chain_of_clones() {
    let theirs = [
        member("p", None, &[1]),
        member("p/a", None, &[2, 10]),
        member("p/b", Some("p/c@3"), &[11]),
        member("p/c", Some("p/a@2"), &[3, 12]),
    ];
    let local = [
        member("q", None, &[1]),
        member("q/a", None, &[2, 10]),
        member("q/b", Some("q/a@2"), &[3, 11]),
        member("q/c", Some("q/b@3"), &[12]),
    ];
    assert_eq!(steps(&local, &theirs), [promote("q/c")]);
    // After the promotion, the local tree is as at the sender.
    let local = [
        member("q", None, &[1]),
        member("q/a", None, &[2, 10]),
        member("q/b", Some("q/c@3"), &[11]),
        member("q/c", Some("q/a@2"), &[3, 12]),
    ];
    assert_eq!(steps(&local, &theirs), []);
    // The origin of the clone was destroyed at the sender.
    let theirs = [member("p", None, &[1]), member("p/c", None, &[3, 12])];
    assert_eq!(steps(&local, &theirs)[0], promote("q/c"));
}

#[test]
fn a_dataset_whose_place_is_not_there_yet_waits_where_it_is() {
    let theirs = [member("p", None, &[1]), member("p/new", None, &[9]), member("p/new/a", None, &[2])];
    let local = [member("q", None, &[1]), member("q/a", None, &[2])];
    assert_eq!(steps(&local, &theirs), []);
    let local = [member("q", None, &[1]), member("q/a", None, &[2]), member("q/new", None, &[9])];
    assert_eq!(steps(&local, &theirs), [rename("q/a", "q/new/a")]);
}

#[test]
fn a_dataset_in_the_way_of_a_new_one_makes_room() {
    // At the sender, the former `a` is below the new `a`.
    let theirs = [member("p", None, &[1]), member("p/a", None, &[9]), member("p/a/b", None, &[2])];
    let local = [member("q", None, &[1]), member("q/a", None, &[2])];
    assert_eq!(steps(&local, &theirs), [rename("q/a", "q/recv-1")]);
    let local = [member("q", None, &[1]), member("q/a", None, &[9]), member("q/recv-1", None, &[2])];
    assert_eq!(steps(&local, &theirs), [rename("q/recv-1", "q/a/b")]);
}

#[test]
fn datasets_exchange_their_names_by_a_third_one() {
    let theirs = [member("p", None, &[1]), member("p/a", None, &[3]), member("p/b", None, &[2])];
    let local = [member("q", None, &[1]), member("q/a", None, &[2]), member("q/b", None, &[3])];
    assert_eq!(steps(&local, &theirs)[0], rename("q/a", "q/recv-1"));
    let local = [member("q", None, &[1]), member("q/b", None, &[3]), member("q/recv-1", None, &[2])];
    assert_eq!(steps(&local, &theirs)[0], rename("q/b", "q/a"));
}

#[test]
fn what_the_sender_has_not_goes_from_below() {
    let theirs = [member("p", None, &[1]), member("p/a", None, &[2])];
    let local = [
        member("q", None, &[1]),
        member("q/a", None, &[2, 7]),
        member("q/own", None, &[]),
        member("q/own/below", None, &[8]),
    ];
    let snapshots = |name: &str| AlignStep::DestroySnapshots(vec![name.to_owned()]);
    let wanted = [snapshots("q/a@7"), snapshots("q/own/below@8"), destroy("q/own/below")];
    assert_eq!(steps(&local, &theirs), wanted);
    // A local clone without snapshots of its own has a counterpart if the sender has the clone too.
    let theirs = [member("p", None, &[1]), member("p/a", None, &[2]), member("p/c", Some("p/a@2"), &[5])];
    let local = [member("q", None, &[1]), member("q/a", None, &[2]), member("q/c", Some("q/a@2"), &[])];
    assert_eq!(steps(&local, &theirs), []);
}

#[test]
fn snapshots_exchange_their_names_by_a_third_one() {
    let named = |one: u64, other: u64| Member {
        snaps: vec![("x".to_owned(), one), ("y".to_owned(), other)],
        ..member("p", None, &[])
    };
    let local = Member { name: "q".to_owned(), ..named(2, 1) };
    let renames = |from: &str, to: &str| AlignStep::RenameSnapshot(format!("q@{from}"), format!("q@{to}"));
    assert_eq!(steps(&[local], &[named(1, 2)]), [renames("x", "recv-1")]);
}

#[test]
fn copies_of_one_dataset_are_told_apart_by_their_places() {
    let copy = Member { snaps: vec![("other".to_owned(), 2)], ..member("p/copy", None, &[]) };
    let theirs = [member("p", None, &[1]), member("p/a", None, &[2]), copy.clone()];
    let local =
        [member("q", None, &[1]), member("q/a", None, &[2]), Member { name: "q/copy".to_owned(), ..copy }];
    assert_eq!(steps(&local, &theirs), []);
}

#[test]
fn what_differs_is_told_by_name() {
    let theirs = [
        member("p", None, &[1]),
        member("p/a", None, &[2, 12]),
        member("p/b", Some("p/a@2"), &[3, 13]),
        member("p/left-out", None, &[4, 14]),
    ];
    let came = BTreeSet::from([12, 13]);
    let told = |local: &[Member]| {
        let wanted: Vec<String> = theirs.iter().map(|member| member.name.replacen('p', "q", 1)).collect();
        let theirs = Package { recursive: true, members: theirs.to_vec(), ..Package::default() };
        Alignment { local, theirs: &theirs, wanted: &wanted, root: "q", force: true }.differences(&came)
    };
    let root = member("q", None, &[1]);
    let (a, b) = (member("q/a", None, &[2, 12]), member("q/b", Some("q/a@2"), &[3, 13]));
    assert_eq!(told(&[root.clone(), a.clone(), b.clone()]), [""; 0], "of what is left out nothing came");
    assert_eq!(
        told(&[root.clone(), a.clone(), Member { name: "q/x".to_owned(), ..b.clone() }]),
        ["'q/x' belongs at 'q/b'", "'q/b' has not the snapshot '@13'"]
    );
    assert_eq!(
        told(&[root.clone(), a.clone(), Member { origin: None, ..b.clone() }]),
        ["'q/b' has another origin than 'p/b'"]
    );
    assert_eq!(
        told(&[root, member("q/a", None, &[2, 7]), b, member("q/own", None, &[])]),
        [
            "'q/a@7' is not at the sender's any more",
            "'q/own' is not at the sender's any more",
            "'q/a' has not the snapshot '@12'"
        ]
    );
}
