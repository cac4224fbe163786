//! Tokens: what a receiver gives to a sender, so that a stream that broke off goes on (`receive_resume_token`).
//!
//! ```text
//!  1 - 96ed452e9 - b8 - 789c63606400...       all but the version in hexadecimal
//!  │   │           │    └ a zlib stream of the nvlist
//!  │   │           └ bytes of the nvlist
//!  │   └ first word of the fletcher4 of the zlib stream's whole 32-bit words
//!  └ version
//! ```
//! Source: `dsl_dataset.c` (`get_receive_resume_token_impl`).

use std::fmt::Write;

use codec::{checksum, compress, decompress};
use ondisk::send::ResumeState;
use ondisk::{ChecksumKind, CompressionKind, NvList};

/// The only version that there is.
const VERSION: &str = "1";
/// What a list may come to: names are short.
const LIST_MAX_BYTES: usize = 64 << 10;

/// Why a token is none, in the words of OpenZFS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has not the four parts.
    #[error("resume token is corrupt (invalid format)")]
    Format,
    /// Of a version that is not known.
    #[error("resume token is corrupt (invalid version {0})")]
    Version(String),
    /// The last part is no hexadecimal.
    #[error("resume token is corrupt (payload is not hex-encoded)")]
    Hex,
    /// Not what was given out.
    #[error("resume token is corrupt (incorrect checksum)")]
    Checksum,
    /// It does not unpack.
    #[error("resume token is corrupt (decompression failed)")]
    Packed,
    /// It unpacks to no list.
    #[error("resume token is corrupt (nvlist_unpack failed)")]
    List,
    /// The list lacks something.
    #[error("resume token is corrupt")]
    Incomplete,
}

/// The token of a state.
#[must_use]
pub fn token(state: &ResumeState) -> String {
    let list = state.list().encode_native();
    // A list of names and numbers shrinks; what would not is given as much room as it wants.
    let packed = compress(CompressionKind::Gzip6, &list, list.len() + 1024).unwrap_or_default();
    let mut token = format!("{VERSION}-{:x}-{:x}-", sum(&packed), list.len());
    for byte in packed {
        _ = write!(token, "{byte:02x}");
    }
    token
}

/// The list in a token, as a sender shows it.
///
/// # Errors
/// See [`TokenError`].
pub fn token_list(token: &str) -> Result<NvList, TokenError> {
    let mut parts = token.trim().splitn(4, '-');
    let mut part = || parts.next().ok_or(TokenError::Format);
    let (version, told, bytes, packed) = (part()?, part()?, part()?, part()?);
    if version.parse::<u32>().is_err() {
        return Err(TokenError::Format);
    }
    if version != VERSION {
        return Err(TokenError::Version(version.to_owned()));
    }
    let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| TokenError::Format);
    let (told, bytes) = (number(told)?, number(bytes)?);
    let packed = unhexed(packed).ok_or(TokenError::Hex)?;
    if sum(&packed) != told {
        return Err(TokenError::Checksum);
    }
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes <= LIST_MAX_BYTES);
    let list = decompress(CompressionKind::Gzip6, &packed, bytes.ok_or(TokenError::Packed)?);
    NvList::decode(&list.map_err(|_| TokenError::Packed)?).map_err(|_| TokenError::List)
}

/// The state that a token tells.
///
/// # Errors
/// See [`TokenError`].
pub fn token_state(token: &str) -> Result<ResumeState, TokenError> {
    ResumeState::from_list(&token_list(token)?).map_err(|_| TokenError::Incomplete)
}

fn sum(packed: &[u8]) -> u64 {
    let whole = &packed[..packed.len() / 4 * 4];
    checksum(ChecksumKind::Fletcher4, whole, None).map_or(0, |words| words[0])
}

fn unhexed(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests;
