use super::*;

#[test]
fn numbers_read_as_the_captured_commands_print_them() {
    for (raw, text) in [
        (0, "0"),
        (1023, "1023"),
        (1024, "1K"),
        (1536, "1.50K"),
        (744_448, "727K"),
        (67_096_576, "64.0M"),
        (67_108_864, "64M"),
        (150_250_496, "143M"),
        (150_994_944, "144M"),
        (224_256, "219K"),
        (8704, "8.50K"),
        (71_827_456, "68.5M"),
        (12_897_485, "12.3M"),
        (1_048_575, "1024K"),
        (u64::MAX, "16.0E"),
    ] {
        assert_eq!(number(raw), text, "{raw}");
    }
}

#[test]
fn byte_quantities_below_a_kilobyte_end_in_b() {
    assert_eq!(bytes(0), "0B");
    assert_eq!(bytes(512), "512B");
    assert_eq!(bytes(46_080), "45K");
}

#[test]
fn nice_numbers_never_take_more_than_five_characters() {
    let mut raw = 1u64;
    while raw < u64::MAX / 3 {
        for near in [raw - 1, raw, raw + 1] {
            assert!(number(near).len() <= 5, "{near}: {}", number(near));
        }
        raw = raw * 3 / 2 + 1;
    }
}

#[test]
fn times_are_whole_units_rounded_down() {
    let times = [0, 999, 1000, 1023, 999_999, 2_500_000, 999_999_999, 137_438_953_471, 7_200_000_000_000];
    let read = ["0ns", "999ns", "1us", "1us", "999us", "2ms", "999ms", "137s", "7200s"];
    assert_eq!(times.map(time), read);
}

#[test]
fn typed_numbers_take_units_in_either_case() {
    assert_eq!(parse("4096"), Ok(4096));
    assert_eq!(parse("128K"), Ok(131_072));
    assert_eq!(parse("128k"), Ok(131_072));
    assert_eq!(parse("1.5GiB"), Ok(1_610_612_736));
    assert_eq!(parse("16MB"), Ok(16 << 20));
    assert_eq!(parse("7B"), Ok(7));
}

#[test]
fn typed_numbers_that_are_none_are_refused_with_the_reason() {
    assert_eq!(parse("x"), Err(ParseNumberError::Bad("x".into())));
    assert_eq!(parse(""), Err(ParseNumberError::Bad("".into())));
    assert_eq!(parse("-1"), Err(ParseNumberError::Bad("-1".into())));
    assert_eq!(parse("1Q"), Err(ParseNumberError::Suffix("Q".into())));
    assert_eq!(parse("1Kx"), Err(ParseNumberError::Suffix("Kx".into())));
    assert_eq!(parse("1BB"), Err(ParseNumberError::Suffix("BB".into())));
    assert_eq!(parse("99999999999999999999"), Err(ParseNumberError::TooLarge));
    assert_eq!(parse("17E"), Err(ParseNumberError::TooLarge));
    assert_eq!(parse("1Z"), Err(ParseNumberError::TooLarge));
    assert_eq!(parse("1.2.3"), Err(ParseNumberError::Bad("1.2.3".into())));
}
