//! Reading every block to see whether it is still what was written, and repairing it where it can be:
//! scrubs and resilvers go through the whole pool, and a read that met a bad copy has that one repaired.

pub(crate) mod error_scrub;
pub(crate) mod heal;
pub(crate) mod scrub;
