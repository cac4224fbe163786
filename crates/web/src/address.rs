//! Where the page may be.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Why the page cannot be there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no address with a port.
    #[error("'{0}' is no address of a page: give PORT, or ADDRESS:PORT")]
    Malformed(String),
    /// Other hosts could reach it.
    #[error(
        "'{0}' is not a loopback address: other hosts could reach the page there; forward its port to them instead (ssh -L)"
    )]
    NotLoopback(IpAddr),
}

/// The address that a word names: `PORT`, `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`. Port 0 stands for any that is
/// free.
///
/// # Errors
/// When it names none, or one that is not loopback.
pub fn loopback(word: &str) -> Result<SocketAddr, AddressError> {
    let numeric = word.replace("localhost:", "127.0.0.1:");
    let of_port = numeric.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = of_port.or_else(|_| numeric.parse::<SocketAddr>());
    let address = address.map_err(|_| AddressError::Malformed(word.to_owned()))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(AddressError::NotLoopback(address.ip())),
    }
}

/// Whether a `Host` header names a loopback host, whatever the port: one that is forwarded has another.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_numeric = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    !host.contains('@') && (is_numeric || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_taken() {
        for word in ["8080", "127.0.0.1:8080", "localhost:8080"] {
            assert_eq!(
                loopback(word).map(|address| address.to_string()),
                Ok("127.0.0.1:8080".into()),
                "{word}"
            );
        }
        assert_eq!(loopback("[::1]:0").map(|address| address.to_string()), Ok("[::1]:0".into()));
        for word in ["0.0.0.0:80", "192.168.1.2:80", "[::]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(matches!(loopback(word), Err(AddressError::NotLoopback(_))), "{word}");
        }
        for word in ["", "80000", "127.0.0.1", "example.org:80", "localhost:", "127.0.0.1:80/x"] {
            assert_eq!(loopback(word), Err(AddressError::Malformed(word.into())), "{word}");
        }
    }

    #[test]
    fn hosts_that_only_begin_like_loopback_are_foreign() {
        for host in ["localhost", "LOCALHOST:9", "127.0.0.1:8080", "127.8.9.1", "[::1]:80"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "example.org",
            "[::2]",
            "a@localhost",
            "10.0.0.1",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
