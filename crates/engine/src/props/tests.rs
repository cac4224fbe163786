use super::*;

#[test]
fn every_word_of_every_table_parses_and_prints() {
    for def in POOL_PROPS.iter().chain(DATASET_PROPS) {
        if let Kind::Choice { words, .. } = def.kind {
            for (word, number) in words {
                assert_eq!(def.parse(word), Ok(Value::Number(*number)), "{} {word}", def.name);
                let shown = def.show(&Value::Number(*number), Style::Exact);
                assert_eq!(def.parse(&shown), Ok(Value::Number(*number)), "{} {word}", def.name);
            }
        }
        if !def.default.is_empty() {
            assert_ne!(def.default_value(), Value::Absent, "{}", def.name);
        }
    }
}

#[test]
fn no_name_is_in_a_table_twice() {
    for table in [POOL_PROPS, DATASET_PROPS] {
        let mut names: Vec<_> = table.iter().map(|d| d.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.len());
    }
}

#[test]
fn defaults_print_as_the_captured_commands_print_them() {
    for (name, shown) in [
        ("quota", "none"),
        ("recordsize", "128K"),
        ("checksum", "on"),
        ("compression", "on"),
        ("xattr", "on"),
        ("sync", "standard"),
        ("logbias", "latency"),
        ("acltype", "off"),
        ("special_small_blocks", "0"),
        ("filesystem_limit", "none"),
        ("dedup", "off"),
        ("version", "5"),
    ] {
        let def = dataset_prop(name).expect(name);
        assert_eq!(def.show(&def.default_value(), Style::Dataset), shown, "{name}");
    }
}

fn later(name: &str, text: &str) -> Result<(String, Value), String> {
    parse_dataset(name, text, DatasetKind::Filesystem, Occasion::Later).map_err(|e| e.to_string())
}

#[test]
fn dataset_properties_take_only_what_makes_sense() {
    assert_eq!(later("sync", "always"), Ok(("sync".into(), Value::Number(1))));
    assert_eq!(later("recsize", "16K"), Ok(("recordsize".into(), Value::Number(16384))));
    assert_eq!(later("quota", "none"), Ok(("quota".into(), Value::Number(0))));
    assert_eq!(later("com.example:note", "x"), Ok(("com.example:note".into(), "x".into())));
    for (name, text, reason) in [
        ("sync", "bogus", "'sync' must be one of 'standard | always | disabled'"),
        ("recordsize", "3K", "'recordsize' must be power of 2 from 512B to 16M"),
        ("recordsize", "32M", "'recordsize' must be power of 2 from 512B to 16M"),
        ("recordsize", "x", "bad numeric value 'x'"),
        ("quota", "0", "use 'none' to disable quota/refquota"),
        ("mountpoint", "relative", "'mountpoint' must be an absolute path, 'none', or 'legacy'"),
        ("used", "1", "'used' is readonly"),
        ("casesensitivity", "mixed", "'casesensitivity' is readonly"),
        ("volsize", "1G", "'volsize' does not apply to datasets of this type"),
        ("bogus", "1", "invalid property 'bogus'"),
    ] {
        assert_eq!(later(name, text), Err(reason.to_owned()), "{name}={text}");
    }
}

#[test]
fn pool_properties_take_only_what_makes_sense() {
    let set = |name: &str, text: &str| {
        parse_pool(name, text, Occasion::Later).map_err(|e| e.failure("p1").stderr.join("\n"))
    };
    assert_eq!(set("comment", "hi"), Ok(("comment".into(), "hi".into())));
    assert_eq!(set("autotrim", "on"), Ok(("autotrim".into(), Value::Number(1))));
    assert_eq!(set("bogus", "1"), Err("cannot set property for 'p1': invalid property 'bogus'".into()));
    assert_eq!(set("size", "1"), Err("cannot set property for 'p1': 'size' is readonly".into()));
    assert!(set("ashift", "17").is_err());
    assert!(set("comment", &"x".repeat(33)).is_err());
    assert!(set("cachefile", "relative").is_err());
    assert!(set("altroot", "/x").is_err());
    assert!(set("feature@bogus", "enabled").is_err());
    assert!(set("feature@large_dnode", "disabled").is_err());
    assert!(set("feature@large_dnode", "enabled").is_ok());
}
