//! From the word for a device to its full path.

use crate::session::Stop;
use control::{Failure, FailureKind};
use engine::refusal::words;
use engine::spec::{self, VdevSpec};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads the vdev specification of a command line.
pub fn parse_spec(words: &[String]) -> Result<Vec<VdevSpec>, Stop> {
    Ok(spec::parse(words, resolve)?)
}

fn refuse<T>(line: String) -> Result<T, Failure> {
    Err(Failure::new(FailureKind::Invalid, line))
}

/// Directories short names are looked up in.
const SHORT_NAME_DIRS: [&str; 4] = ["/dev", "/dev/disk/by-id", "/dev/disk/by-path", "/dev/disk/by-label"];

/// A full path as it is; a short name below `/dev`.
pub fn resolve(word: &str) -> Result<String, Failure> {
    let path = match word.starts_with('/') {
        true => word.to_owned(),
        false => match short_name(word) {
            Some(path) => path,
            None => {
                let line = format!("cannot open '{word}': no such device in /dev");
                return refuse(line)
                    .map_err(|f: Failure| f.and("must be a full path or shorthand device name"));
            }
        },
    };
    let kind = match std::fs::metadata(&path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return refuse(format!("cannot resolve path '{path}'"));
        }
        Err(error) => return refuse(format!("cannot open '{path}': {}", words(&error))),
    };
    match kind.is_file() || kind.is_block_device() {
        true => Ok(path),
        false => refuse(format!("cannot use '{path}': must be a block device or regular file")),
    }
}

/// Where the device of a short name is.
pub fn short_name(word: &str) -> Option<String> {
    if word.is_empty() {
        return None;
    }
    SHORT_NAME_DIRS.iter().map(|dir| format!("{dir}/{word}")).find(|path| Path::new(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(word: &str) -> String {
        resolve(word).expect_err("refused").stderr.join("\n")
    }

    #[test]
    fn words_that_are_no_devices_are_refused_in_the_known_words() {
        assert_eq!(
            refusal("nosuchdev"),
            "cannot open 'nosuchdev': no such device in /dev\nmust be a full path or shorthand device name"
        );
        assert_eq!(refusal("/no/such/file"), "cannot resolve path '/no/such/file'");
        assert_eq!(refusal("/dev/null"), "cannot use '/dev/null': must be a block device or regular file");
        assert_eq!(refusal("/"), "cannot use '/': must be a block device or regular file");
    }
}
