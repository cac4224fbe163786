use super::*;

#[test]
fn every_value_is_parsed_and_shown_again() {
    for prop in DATASET_INDEX.iter().chain(POOL_INDEX) {
        for (name, word) in prop.values {
            assert_eq!(prop.parse(name), Some(*word));
            let shown = prop.display(*word).expect("a value has a name");
            assert_eq!(prop.parse(shown), Some(*word), "{} {name}", prop.name);
        }
        assert!(prop.display(prop.default).is_some(), "{} has a default value", prop.name);
        assert_eq!(prop.parse("no such value"), None);
    }
}

#[test]
fn compression_words_say_function_and_level() {
    let prop = dataset_index("compression").expect("there is compression");
    for (name, kind, level) in [
        ("lz4", CompressionKind::Lz4, 3),
        ("zstd", CompressionKind::Zstd, 3),
        ("zstd-19", CompressionKind::Zstd, 19),
        ("zstd-fast", CompressionKind::Zstd, -1),
        ("zstd-fast-10", CompressionKind::Zstd, -10),
        ("zstd-fast-20", CompressionKind::Zstd, -20),
        ("zstd-fast-1000", CompressionKind::Zstd, -1000),
    ] {
        let word = prop.parse(name).expect("a value");
        let compression = Compression::from_word(word).expect("our own word");
        assert_eq!((compression.kind, compression.level.level()), (kind, Some(level)), "{name}");
        assert_eq!(compression.to_word(), word);
    }
}

#[test]
fn compression_words_that_say_nothing_are_errors() {
    for word in [17, 16 | 20 << 7, 16 | 102 << 7, 16 | 124 << 7, 16 | 300 << 7, u64::MAX] {
        assert!(Compression::from_word(word).is_err(), "{word:#x}");
    }
}
