//! What somebody has to know who is shown anything on the port.
//!
//! It is drawn at random and kept in a file of the run-time directory, which only the daemon's user can read. A daemon that
//! is started again takes the token that is there, so that a page that is open goes on when the daemon was killed.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const BYTES: usize = 32;
const OTHERS: u32 = 0o077;

/// A token could not be made or kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {}", path.display())]
pub struct TokenError {
    /// Its file.
    path: PathBuf,
    /// Why.
    #[source]
    source: io::Error,
}

/// 256 random bits, as hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    /// Without the secret: what is debugged ends in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The one of the file, or a new one where there is none that only its owner could have read.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn kept_at(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError { path: path.to_owned(), source };
        match Self::read(path).map_err(failed)? {
            Some(token) => Ok(token),
            None => Self::make(path).map_err(failed),
        }
    }

    /// The one of the file, if there is one that only its owner could have read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_secret = found.is_file() && found.mode() & OTHERS == 0;
        if !is_secret {
            return Ok(None);
        }
        let text = fs::read_to_string(path)?;
        let word = text.trim_end();
        let is_whole = word.len() == 2 * BYTES && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(is_whole.then(|| Self(word.to_owned())))
    }

    fn make(path: &Path) -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token = Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        if let Err(error) = fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{}", token.0)?;
        Ok(token)
    }

    /// The token itself.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether a word is the token, in a time that tells nothing of where they differ: what is compared are hashes, and those
    /// in constant time.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(word.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn kept_in(directory: &tempfile::TempDir) -> (Token, PathBuf) {
        let path = directory.path().join("token");
        (Token::kept_at(&path).expect("made"), path)
    }

    #[test]
    fn a_token_is_its_owners_alone_and_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let (token, path) = kept_in(&directory);
        assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, 0o600);
        let (again, _) = kept_in(&directory);
        assert!(again.is(token.secret()));
        let other = tempfile::tempdir().expect("a directory");
        assert!(!kept_in(&other).0.is(token.secret()), "two were drawn alike");
    }

    #[test]
    fn a_file_that_others_could_read_or_put_there_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let (token, path) = kept_in(&directory);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let (new, _) = kept_in(&directory);
        assert!(!new.is(token.secret()), "it was known to others");
        assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, 0o600);
        fs::write(&path, "short\n").expect("written");
        assert!(!kept_in(&directory).0.is("short"));
        fs::remove_file(&path).expect("is there");
        let elsewhere = directory.path().join("elsewhere");
        fs::write(&elsewhere, format!("{}\n", new.secret())).expect("written");
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).expect("set");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
        assert!(!kept_in(&directory).0.is(new.secret()), "a link leads to what somebody else wrote");
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let directory = tempfile::tempdir().expect("a directory");
        let (token, _) = kept_in(&directory);
        let secret = token.secret().to_owned();
        assert!(token.is(&secret));
        for wrong in ["", &secret[1..], &format!("{secret}0"), &secret.to_uppercase().replace('0', "1")] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
