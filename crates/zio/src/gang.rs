//! Gang blocks: blocks that found no room in one piece, made of smaller ones.
//!
//! ```text
//!   blkptr (G) ─► header, 512 bytes: │ blkptr 0 │ blkptr 1 │ blkptr 2 │ … │ checksum │
//!                                        ▼          ▼          ▼
//!                                     bytes   ++  bytes   ++  bytes   =  psize bytes
//! ```
//! A member may be a gang itself. The members' bytes in a row have the checksum of the first blkptr.
//! A gang's DVA leads to a copy of its header, and its asize counts the header and what the members
//! have in their DVAs of the same place (first, second, third). The header has a copy more than the
//! data at least: who loses it cannot even free the members.
//!
//! Invariants
//! - A gang that cannot be had whole leaves nothing allocated.
//!   (test: `a_gang_that_finds_no_room_takes_nothing`)
//! - Members are smaller than their gang, so that a hostile one ends.
//!   (test: `a_gang_that_names_itself_ends_in_an_error`)

use std::sync::Arc;

use env::{BoxFuture, IoBuf};
use ondisk::gang::GANG_BLKPTRS;
use ondisk::{Blkptr, BlkptrParts, Dva, GangHeaderPhys, ObjectType};
use units::{Asize, Lsize, Psize};
use zerocopy::IntoBytes;

use crate::embedded::{GANG_HEADER_BYTES, verify_gang_header};
use crate::stats::one_more;
use crate::write::Placing;
use crate::{Bookmark, Zio, ZioError};

/// How deep gangs of gangs are followed: each level has about a third of the one above.
pub(crate) const DEPTH_MAX: usize = 12;

/// A gang's header and what it names.
pub(crate) struct Gang {
    pub(crate) members: Vec<Blkptr>,
}

impl Gang {
    /// What may be believed of a verified header of the gang that `bp` leads to.
    fn decode(header: &[u8], bp: &Blkptr, bookmark: &Bookmark) -> Result<Self, ZioError> {
        let bad = |source| ZioError::BadBlkptr { bookmark: *bookmark, source };
        let header = GangHeaderPhys::decode(header).map_err(bad)?;
        let members: Vec<Blkptr> = header.members().copied().collect();
        let is_sound = |member: &Blkptr| member.psize() < bp.psize() && !member.is_embedded();
        if !members.iter().all(is_sound) {
            return Err(ZioError::Checksum { bookmark: *bookmark });
        }
        Ok(Self { members })
    }
}

impl Zio {
    /// Reads a gang's header.
    pub(crate) async fn read_gang_header(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Gang, ZioError> {
        let verify = |header: &[u8]| verify_gang_header(header, bp);
        let header = self.read_copies(bp, bookmark, GANG_HEADER_BYTES as u64, &verify).await?;
        Gang::decode(&header, bp, bookmark)
    }

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
            let mut filled = 0;
            for member in self.read_gang_header(&bp, &bookmark).await?.members {
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

    /// Every place that a block takes: its DVAs, and if it is a gang, those of all members.
    pub(crate) async fn places(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Vec<Dva>, ZioError> {
        let mut places = Vec::new();
        let mut todo = vec![(*bp, 0)];
        while let Some((bp, depth)) = todo.pop() {
            places.extend(bp.dvas());
            if bp.is_gang() {
                if depth == DEPTH_MAX {
                    return Err(ZioError::Checksum { bookmark: *bookmark });
                }
                let gang = self.read_gang_header(&bp, bookmark).await?;
                todo.extend(gang.members.into_iter().map(|member| (member, depth + 1)));
            }
        }
        Ok(places)
    }

    /// Writes bytes in up to three parts and a header over them; gives the header's DVAs.
    pub(crate) fn place_gang<'a>(
        &'a self,
        job: &'a Placing<'a>,
        bytes: &'a IoBuf,
    ) -> BoxFuture<'a, Result<[Dva; 3], ZioError>> {
        Box::pin(async move {
            let unit = self.vdevs().min_ashift().sector_bytes();
            let (mut members, mut at) = ([Blkptr::HOLE; GANG_BLKPTRS], 0);
            for (slot, member) in members.iter_mut().enumerate() {
                let rest = bytes.len() - at;
                if rest == 0 {
                    break;
                }
                let share = units::round_up(rest.div_ceil(GANG_BLKPTRS - slot) as u64, unit) as usize;
                let part = Arc::new(IoBuf::copy_of(&bytes[at..at + share.min(rest)]));
                *member = self.place_member(job, &part).await?;
                at += part.len();
            }
            assert!(at == bytes.len(), "parts of a gang cover it");
            let mut dvas = self.place_header(job, &members).await?;
            one_more(&self.counters.gang_blocks);
            for (copy, dva) in dvas.iter_mut().enumerate().filter(|(_, dva)| dva.is_valid()) {
                let of_members: u64 = members.iter().map(|member| member.dva(copy).asize.get()).sum();
                *dva = Dva { gang: true, asize: Asize::new(dva.asize.get() + of_members), ..*dva };
            }
            Ok(dvas)
        })
    }

    async fn place_member(&self, job: &Placing<'_>, part: &Arc<IoBuf>) -> Result<Blkptr, ZioError> {
        let size = part.len() as u64;
        let checksum = self.checksum(job.checksum, part, job.bookmark)?;
        let parts = BlkptrParts {
            dvas: self.place(job, part).await?,
            lsize: Lsize::new(size),
            psize: Psize::new(size),
            checksum_kind: job.checksum,
            checksum,
            object_type: ObjectType::NONE,
            birth: job.txg,
            physical_birth: job.txg,
            ..BlkptrParts::default()
        };
        Ok(parts.to_blkptr())
    }

    /// The header's checksum is seeded with its first place, so it is sealed anew for each try.
    async fn place_header(
        &self,
        job: &Placing<'_>,
        members: &[Blkptr; GANG_BLKPTRS],
    ) -> Result<[Dva; 3], ZioError> {
        let sealed = |dvas: &[Dva; 3]| {
            let verifier = [dvas[0].vdev.get().into(), dvas[0].offset.get(), job.txg.get(), 0];
            let mut header = IoBuf::copy_of(GangHeaderPhys::new(*members, verifier).as_bytes());
            vdev::label::seal_part(&mut header, verifier);
            Arc::new(header)
        };
        self.place_and_write(job, GANG_HEADER_BYTES as u64, job.header_copies(), &sealed).await
    }
}
