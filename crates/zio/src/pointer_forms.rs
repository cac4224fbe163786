//! What the pool's features let block pointers be.

/// Forms of block pointers that not every pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointerForms {
    /// Blocks that compress to 112 bytes or less may lie in their pointers (`embedded_data`).
    pub embedded: bool,
    /// Holes that were punched tell when (`hole_birth`).
    pub hole_births: bool,
    /// The pool lacks `lz4_compress`: where compression is simply on, it is lzjb.
    pub no_lz4: bool,
}
