//! Gang blocks: blocks that found no room in one piece, made of smaller ones.
//!
//! ```text
//!   blkptr (G) ─► header, 512 bytes: │ blkptr 0 │ blkptr 1 │ blkptr 2 │ … │ checksum │
//!                                        ▼          ▼          ▼
//!                                     bytes   ++  bytes   ++  bytes   =  psize bytes
//! ```
//! A member may be a gang itself. The members' bytes in a row have the checksum of the first blkptr.
//! We read gangs that others wrote; we do not write any: a pool that full reports no space.

use device::{BoxFuture, IoBuf};
use ondisk::Blkptr;

use crate::embedded::{GANG_HEADER_BYTES, verify_gang_header};
use crate::{Bookmark, Zio, ZioError};

/// Blkptrs in a header.
const MEMBERS: usize = 3;
/// How deep gangs of gangs are followed: each level has a third of the one above.
const DEPTH_MAX: usize = 12;

impl Zio {
    /// The bytes of a gang block, verified.
    pub(crate) async fn read_gang(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        let mut out = IoBuf::zeroed(usize::try_from(bp.psize().get()).unwrap_or(0));
        let filled = self.gather(*bp, *bookmark, &mut out, DEPTH_MAX).await?;
        let is_whole = filled == out.len() && self.check_of(bp, bookmark)?.holds(&out);
        if is_whole { Ok(out) } else { Err(ZioError::Checksum { bookmark: *bookmark }) }
    }

    /// Fills `out` with a gang's members from the start; says how far they reach.
    fn gather<'a>(
        &'a self,
        bp: Blkptr,
        bookmark: Bookmark,
        out: &'a mut [u8],
        depth: usize,
    ) -> BoxFuture<'a, Result<usize, ZioError>> {
        Box::pin(async move {
            let damaged = || ZioError::Checksum { bookmark };
            let depth = depth.checked_sub(1).ok_or_else(damaged)?;
            let verify = |header: &[u8]| verify_gang_header(header, &bp);
            let header = self.read_copies(&bp, &bookmark, GANG_HEADER_BYTES as u64, &verify).await?;
            let mut filled = 0;
            for member in header.chunks_exact(size_of::<Blkptr>()).take(MEMBERS) {
                let member =
                    Blkptr::decode(member).map_err(|source| ZioError::BadBlkptr { bookmark, source })?;
                if member.is_hole() {
                    continue;
                }
                let rest = out.get_mut(filled..).ok_or_else(damaged)?;
                filled += if member.is_gang() {
                    self.gather(member, bookmark, rest, depth).await?
                } else {
                    let bytes = self.read_packed(&member, &bookmark).await?;
                    rest.get_mut(..bytes.len()).ok_or_else(damaged)?.copy_from_slice(&bytes);
                    bytes.len()
                };
            }
            Ok(filled)
        })
    }
}
