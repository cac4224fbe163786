//! What commands show of the encryption of datasets that were made elsewhere: there are no keys here.

use crate::props::{Prop, Props, Source, Value};
use dsl::Encryption;

/// The number of `keystatus` for a key that is not loaded.
const UNAVAILABLE: u64 = 1;

/// Puts its facts in place of what was never set.
pub fn put(encryption: Encryption, props: &mut Props) {
    let facts = [
        ("encryption", Value::Number(encryption.suite)),
        ("keyformat", Value::Number(encryption.key_format)),
        ("encryptionroot", Value::Text(encryption.root)),
        ("keystatus", Value::Number(UNAVAILABLE)),
    ];
    // A key that is no passphrase is derived from none: that is the default.
    let rounds =
        (encryption.iterations != 0).then_some(("pbkdf2iters", Value::Number(encryption.iterations)));
    for (name, value) in facts.into_iter().chain(rounds) {
        props.insert(name.to_owned(), Prop { value, source: Source::None });
    }
}
