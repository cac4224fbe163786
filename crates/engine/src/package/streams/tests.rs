use super::*;

/// A dataset with snapshots, named by the part after the `@`. `origin` is a full name.
fn member(name: &str, origin: Option<&str>, snaps: &[&str]) -> Member {
    let guid = |snap: &str| {
        let bytes = name.bytes().chain(snap.bytes());
        bytes.fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
    };
    Member {
        name: name.to_owned(),
        origin: origin.map(|_| 1),
        origin_name: origin.map(str::to_owned),
        snaps: snaps.iter().map(|snap| ((*snap).to_owned(), guid(snap))).collect(),
        ..Member::default()
    }
}

fn package(from: Option<&str>, members: Vec<Member>) -> Package {
    Package {
        fromsnap: from.map(str::to_owned),
        tosnap: "9".to_owned(),
        recursive: true,
        members,
        ..Package::default()
    }
}

/// Lists streams as `FROM>SNAPSHOT`. `=NAME` follows if a stream is sent under another name, and
/// `*` if it is the stream of a clone.
fn streams(package: &Package, all: bool) -> Vec<String> {
    let streams = package.streams(all).expect("an order");
    let told = streams.iter().map(|stream| {
        let other = (stream.sent_as != stream.snapshot).then(|| format!("={}", stream.sent_as));
        let clone = if stream.is_of_clone { "*" } else { "" };
        let from = stream.from.as_ref().map_or("", |(from, _)| from);
        format!("{from}>{}{}{clone}", stream.snapshot, other.unwrap_or_default())
    });
    told.collect()
}

#[test]
fn datasets_are_sent_after_those_above_them_and_those_they_are_clones_of() {
    let members = vec![
        member("p", None, &["1", "9"]),
        member("p/a", Some("p/z@1"), &["9"]),
        member("p/a/below", None, &["9"]),
        member("p/z", None, &["0", "1", "9"]),
    ];
    assert_eq!(
        streams(&package(None, members.clone()), true),
        [">p@1", "p@1>p@9", ">p/z@0", "p/z@0>p/z@1", "p/z@1>p/z@9", "p/z@1>p/a@9*", ">p/a/below@9"]
    );
    // Of the snapshots in between, only those that a clone needs are sent.
    let wanted = ["p@1>p@9", "p/z@1>p/z@9", "p/z@1>p/a@9*", ">p/a/below@9"];
    assert_eq!(streams(&package(Some("1"), members), false), wanted);
}

#[test]
fn a_promoted_clone_below_its_origin_is_sent_as_it_was_before() {
    let members = vec![member("t", Some("t/c@1"), &["9"]), member("t/c", None, &["0", "1", "9"])];
    assert_eq!(
        streams(&package(None, members.clone()), true),
        [">t/c@0=t@0", "t/c@0>t/c@1=t@1", "t/c@1>t@9", "t/c@1>t/c@9*"]
    );
    // The receiver has both, so neither waits.
    let members = vec![member("t", Some("t/c@0"), &["1", "9"]), member("t/c", None, &["0", "1", "9"])];
    assert_eq!(streams(&package(Some("1"), members), true), ["t@1>t@9", "t/c@1>t/c@9"]);
    // Along a chain, each dataset below the previous one.
    let members = vec![
        member("t", Some("t/c@2"), &["9"]),
        member("t/c", Some("t/c/d@1"), &["2", "9"]),
        member("t/c/d", None, &["1", "9"]),
    ];
    assert_eq!(
        streams(&package(None, members), true),
        [">t/c/d@1=t@1", "t/c/d@1>t/c@2=t@2", "t/c@2>t@9", "t/c@2>t/c@9*", "t/c/d@1>t/c/d@9*"]
    );
}

#[test]
fn a_clone_that_took_over_what_the_receiver_has_is_sent_as_a_clone() {
    let members = vec![member("t", Some("u@1"), &["from", "9"]), member("u", None, &["0", "1", "9"])];
    assert_eq!(streams(&package(Some("from"), members), true), ["t@from>t@9", "u@1>u@9*"]);
}

#[test]
fn every_promotion_in_a_small_tree_has_an_order_in_which_nothing_comes_too_early() {
    // Three datasets above, beside and below each other. Each is a clone of any other one, or of
    // none.
    let names = ["t", "t/a", "t/a/b", "t/c"];
    let choices =
        |at: usize| [None].into_iter().chain((0..names.len()).filter(move |&of| of != at).map(Some));
    let mut tried = 0;
    for (one, two, three, four) in choices(0).flat_map(|one| {
        choices(1).flat_map(move |two| {
            choices(2).flat_map(move |three| choices(3).map(move |four| (one, two, three, four)))
        })
    }) {
        let origins = [one, two, three, four];
        let is_circle = |start: usize| {
            let chain = std::iter::successors(Some(start), |&at| origins[at]);
            chain.skip(1).take(names.len()).any(|at| at == start)
        };
        if (0..names.len()).any(is_circle) {
            continue;
        }
        let members = names.iter().zip(origins).map(|(name, origin)| {
            let own = format!("of-{}", name.replace('/', "-"));
            let origin = origin.map(|of: usize| format!("{}@of-{}", names[of], names[of].replace('/', "-")));
            member(name, origin.as_deref(), &[&own, "9"])
        });
        let package = package(None, members.collect());
        let mut there: Vec<String> = Vec::new();
        let mut heads: Vec<String> = Vec::new();
        let mut names_here: std::collections::BTreeMap<String, String> = Default::default();
        for stream in package.streams(true).expect("an order") {
            let head = crate::names::head_of(&stream.sent_as).to_owned();
            let parent = crate::names::parent_of(&head).map(str::to_owned);
            assert!(parent.is_none_or(|parent| heads.contains(&parent)), "{origins:?}: {stream:?}");
            let from = stream.from.as_ref().map(|(from, _)| names_here[from].clone());
            let of_itself = from.as_deref().map(|from| crate::names::head_of(from) == head);
            assert_eq!(heads.contains(&head), of_itself == Some(true), "{origins:?}: {stream:?}");
            assert_eq!(stream.is_of_clone, of_itself == Some(false), "{origins:?}: {stream:?}");
            assert!(!there.contains(&stream.sent_as), "{origins:?}: {stream:?}");
            if !heads.contains(&head) {
                heads.push(head);
            }
            names_here.insert(stream.snapshot, stream.sent_as.clone());
            there.push(stream.sent_as);
        }
        assert_eq!((there.len(), heads.len()), (2 * names.len(), names.len()), "{origins:?}");
        tried += 1;
    }
    assert_eq!(tried, 125, "all forests of four");
}

#[test]
fn two_snapshots_of_one_name_are_refused_by_name() {
    let members = vec![member("t", Some("t/c@1"), &["0", "9"]), member("t/c", None, &["0", "1", "9"])];
    let error = package(None, members).streams(true).expect_err("t would have two @0");
    assert_eq!(
        error.to_string(),
        "'t' is a clone of a dataset below it, and both have a snapshot '0': rename one of the two snapshots"
    );
}

#[test]
fn what_is_left_out_has_no_stream_and_nothing_waits_for_it() {
    let left_out = Member { is_left_out: true, ..member("p/x", None, &["1", "9"]) };
    let members = vec![member("p", None, &["1", "9"]), member("p/c", Some("p/x@1"), &["9"]), left_out];
    assert_eq!(streams(&package(Some("1"), members), true), ["p@1>p@9", "p/x@1>p/c@9*"]);
}

#[test]
fn a_dataset_without_the_last_snapshot_is_an_error_that_names_it() {
    let members = vec![member("p", None, &["9"]), member("p/a", None, &["1"])];
    let error = package(None, members).streams(true).expect_err("p/a has no @9");
    assert_eq!(error.to_string(), "dataset 'p/a' would be left out");
    let members = vec![member("p", None, &["9"])];
    assert!(package(Some("9"), members).streams(true).is_err(), "it starts where it ends");
}
