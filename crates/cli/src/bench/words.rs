//! `--name value …` words.

use std::collections::BTreeMap;

/// What was given, by name.
pub(super) struct Words(BTreeMap<String, Vec<String>>);

const NAMES: &[&str] = &[
    "threads",
    "size",
    "span",
    "ramp",
    "idle-datasets",
    "seconds",
    "main",
    "log",
    "log-mirror",
    "json",
    "path",
    "acks",
    "record",
    "compression",
    "compressible",
    "cache",
    "files",
    "records",
    "batch",
    "make",
];

impl Words {
    /// Splits words; a name takes all that follow up to the next.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut current: Option<&str> = None;
        for word in words {
            match (word.strip_prefix("--"), current) {
                (Some(name), _) if NAMES.contains(&name) => {
                    current = Some(name);
                    found.entry(name.into()).or_default();
                }
                (Some(name), _) => return Err(format!("invalid option '--{name}'")),
                (None, Some(name)) => found.entry(name.into()).or_default().push(word.clone()),
                (None, None) => return Err(format!("unexpected word '{word}'")),
            }
        }
        Ok(Self(found))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn one(&self, name: &str) -> Option<&str> {
        self.all(name).first().map(String::as_str)
    }
}

/// `400m`, `8k`, `512`: binary multiples.
pub(super) fn bytes(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match word[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_all_values_up_to_the_next() {
        let words: Vec<String> = ["--main", "a", "b", "--json", "--log", "c"].map(String::from).to_vec();
        let words = Words::parse(&words).unwrap();
        assert_eq!(words.all("main"), ["a", "b"]);
        assert_eq!(words.one("log"), Some("c"));
        assert!(words.has("json") && !words.has("log-mirror"));
        assert!(Words::parse(&["--bogus".into()]).is_err());
    }

    #[test]
    fn sizes_are_binary_multiples() {
        assert_eq!(bytes("400m"), Some(400 << 20));
        assert_eq!(bytes("8k"), Some(8192));
        assert_eq!(bytes("x"), None);
    }
}
