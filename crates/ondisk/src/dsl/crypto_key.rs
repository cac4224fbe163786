//! Names in the ZAP that holds the wrapped keys of an encrypted dataset ([`super::dir_names::CRYPTO_KEY_OBJ`]).
//! Source: `dsl_crypt.h`, `zfs_prop.c`.

/// With what its data is encrypted: a number of the property `encryption`.
pub const SUITE: &str = "DSL_CRYPTO_SUITE";
/// The directory whose key wraps this one's: where a key is loaded for it.
pub const ROOT_DIR: &str = "DSL_CRYPTO_ROOT_DDOBJ";
/// How the wrapping key is given: a number of the property of this name.
pub const KEY_FORMAT: &str = "keyformat";
/// Rounds that make the wrapping key of a passphrase; zero for other formats.
pub const ITERATIONS: &str = "pbkdf2iters";
