//! JSON with keys in the order they were put: that order is part of the interface.

use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// Text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// Keys and values, in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// No keys yet.
    pub fn object() -> Self {
        Self::Object(Vec::new())
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number: as such, or as text.
    pub fn number(number: u64, as_int: bool) -> Self {
        if as_int { Self::Number(number) } else { Self::Text(number.to_string()) }
    }

    /// Sets a key of an object; a key set again keeps its place.
    pub fn put(&mut self, key: &str, value: Json) {
        let Self::Object(pairs) = self else { return };
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => pairs.push((key.to_owned(), value)),
        }
    }

    /// The object with one more key.
    #[must_use]
    pub fn with(mut self, key: &str, value: Json) -> Self {
        self.put(key, value);
        self
    }

    /// The object with one more key unless the value is an object without keys.
    #[must_use]
    pub fn with_some(self, key: &str, value: Json) -> Self {
        if value.is_empty_object() { self } else { self.with(key, value) }
    }

    fn is_empty_object(&self) -> bool {
        matches!(self, Self::Object(pairs) if pairs.is_empty())
    }
}

/// `{"output_version":{"command":…,"vers_major":0,"vers_minor":1}}`, where all output starts.
pub fn document(command: &str) -> Json {
    let version = Json::object()
        .with("command", Json::text(command))
        .with("vers_major", Json::Number(0))
        .with("vers_minor", Json::Number(1));
    Json::object().with("output_version", version)
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Object(pairs) => {
                f.write_str("{")?;
                for (place, (key, value)) in pairs.iter().enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    write!(f, "{comma}{}:{value}", quoted(key))?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_text_is_escaped() {
        let json = Json::object()
            .with("z", Json::Number(u64::MAX))
            .with("a", Json::text("q\"\n"))
            .with("z", Json::Number(1))
            .with_some("none", Json::object());
        assert_eq!(json.to_string(), r#"{"z":1,"a":"q\"\n"}"#);
    }
}
