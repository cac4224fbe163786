use super::*;

const SPEC: Spec = Spec {
    name: "cut",
    alias: None,
    about: "cuts",
    flags: &[
        Flag::switch('f', "by force"),
        Flag::switch('n', "not really"),
        Flag::value('o', "property=value", "a property").repeated(),
        Flag::value('m', "place", "where"),
        Flag::switch('j', "as JSON").or("json"),
        Flag::long("quite-long", "long"),
        Flag::long_value("size", "size", "how large"),
        Flag::long_list("main", "file", "on which"),
    ],
    operands: "<log> ...",
};

fn parse(words: &str) -> Result<Args, String> {
    SPEC.parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn the_usage_line_is_made_of_the_flags() {
    let usage = "cut [-fnj] [-o property=value] ... [-m place] [--quite-long] [--size size] [--main file ...] <log> ...";
    assert_eq!(SPEC.usage(), usage);
    for word in ["by force", "-j, --json", "-o property=value", "--quite-long", "--main file ..."] {
        assert!(SPEC.help("saw").contains(word), "{word}");
    }
}

#[test]
fn flags_may_stand_anywhere_and_be_bundled() {
    let args = parse("a -fn -oa=1 b -o b=2 --json -m x -m y").expect("parses");
    assert_eq!(args.operands, ["a", "b"]);
    assert!(args.has('f') && args.has('n') && args.has('j') && args.has_long("json"));
    assert_eq!(args.values('o').collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!(args.value('m'), Some("y"));
    assert!(!args.has_long("quite-long"));
}

#[test]
fn flags_are_first_where_posix_is_wanted() {
    let words = ["-f", "a", "-n", "--", "-j"].map(str::to_owned);
    let args = SPEC.parse_in_order(&words, true).expect("parses");
    assert!(args.has('f') && !args.has('n'));
    assert_eq!(args.operands, ["a", "-n", "--", "-j"]);
}

#[test]
fn a_list_goes_on_to_the_next_long_flag() {
    let args = parse("--main a b --size 8k --main c --quite-long d").expect("parses");
    assert_eq!(args.long_values("main").collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(args.long_values("size").collect::<Vec<_>>(), ["8k"]);
    assert_eq!(args.operands, ["d"]);
    assert_eq!(parse("--main").err().as_deref(), Some("missing argument for 'main' option"));
}

#[test]
fn two_dashes_end_the_flags_and_one_is_an_operand() {
    let args = parse("- -- -f").expect("parses");
    assert_eq!(args.operands, ["-", "-f"]);
    assert!(!args.has('f'));
}

#[test]
fn what_is_no_flag_is_refused_with_the_reason() {
    assert_eq!(parse("-Z").err().as_deref(), Some("invalid option 'Z'"));
    assert_eq!(parse("--zz").err().as_deref(), Some("invalid option 'zz'"));
    assert_eq!(parse("-o").err().as_deref(), Some("missing argument for 'o' option"));
    assert_eq!(parse("-fo").err().as_deref(), Some("missing argument for 'o' option"));
    assert_eq!(parse("--json=1").err().as_deref(), Some("option 'json' takes no value"));
}
