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
//! - A later pass of a sync writes over a gang of an earlier one: were it to take new places each time, the sync would not end.
//!   (tests: `a_gang_is_written_over_in_its_own_txg`, `a_sync_whose_own_blocks_are_gangs_ends` in `pool`)
//! - A gang that cannot be had whole leaves nothing allocated.
//!   (test: `a_gang_that_finds_no_room_takes_nothing`)
//! - Members are smaller than their gang, so that a hostile one ends.
//!   (test: `a_gang_that_names_itself_ends_in_an_error`)

use std::sync::Arc;

use env::{BoxFuture, IoBuf, impatient};
use ondisk::gang::GANG_BLKPTRS;
use ondisk::{Blkptr, BlkptrParts, Dva, GangHeaderPhys, ObjectType};
use units::{Asize, Lsize, Psize, Txg};
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
        self.places_but(bp, bookmark, &mut |_, error| Err(error)).await
    }

    /// Returns the places of a block that is to be freed, without the members below damaged
    /// headers, and the size of these members in bytes.
    pub(crate) async fn places_to_free(&self, bp: &Blkptr) -> Result<(Vec<Dva>, u64), ZioError> {
        let mut lost_bytes = 0_u64;
        let lose = &mut |gang: &Blkptr, error: ZioError| match error.is_loss() {
            true => {
                let headers: u64 = gang.dvas().map(|dva| self.header_charge(dva)).sum();
                lost_bytes += self.charged_bytes(gang).saturating_sub(headers);
                Ok(())
            }
            false => Err(error),
        };
        let places = impatient(self.places_but(bp, &Bookmark::default(), lose)).await?;
        Ok((places, lost_bytes))
    }

    /// Returns every place of a block. `lose` decides about gangs whose headers cannot be read.
    async fn places_but(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        lose: &mut (dyn FnMut(&Blkptr, ZioError) -> Result<(), ZioError> + Send),
    ) -> Result<Vec<Dva>, ZioError> {
        let mut places = Vec::new();
        let mut todo = vec![(*bp, 0)];
        while let Some((bp, depth)) = todo.pop() {
            places.extend(bp.dvas());
            if bp.is_gang() {
                let header = match depth {
                    DEPTH_MAX => Err(ZioError::Checksum { bookmark: *bookmark }),
                    _ => self.read_gang_header(&bp, bookmark).await,
                };
                match header {
                    Ok(gang) => todo.extend(gang.members.into_iter().map(|member| (member, depth + 1))),
                    Err(error) => lose(&bp, error)?,
                }
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
                *member = self.member(job, &part, self.place(job, &part).await?)?;
                at += part.len();
            }
            assert!(at == bytes.len(), "parts of a gang cover it");
            let mut dvas = self.place_header(job, &members).await?;
            one_more(&self.counters.gang_blocks);
            for (copy, dva) in dvas.iter_mut().enumerate().filter(|(_, dva)| dva.is_valid()) {
                let asize = dva.asize.get() + of_members(&members, copy);
                *dva = Dva { gang: true, asize: Asize::new(asize), ..*dva };
            }
            Ok(dvas)
        })
    }

    /// What a gang's header says of some of its bytes that lie there.
    fn member(&self, job: &Placing<'_>, part: &[u8], dvas: [Dva; 3]) -> Result<Blkptr, ZioError> {
        let size = part.len() as u64;
        let parts = BlkptrParts {
            dvas,
            lsize: Lsize::new(size),
            psize: Psize::new(size),
            checksum_kind: job.checksum,
            checksum: self.checksum(job.checksum, part, job.bookmark)?,
            object_type: ObjectType::NONE,
            birth: job.txg,
            physical_birth: job.txg,
            ..BlkptrParts::default()
        };
        Ok(parts.to_blkptr())
    }

    async fn place_header(
        &self,
        job: &Placing<'_>,
        members: &[Blkptr; GANG_BLKPTRS],
    ) -> Result<[Dva; 3], ZioError> {
        let sealed = |dvas: &[Dva; 3]| sealed_header(job.txg, members, dvas);
        self.place_and_write(job, GANG_HEADER_BYTES as u64, job.header_copies(), &sealed).await
    }

    /// Writes as many other bytes over the places of a gang of this txg: over its members, and then over the header, which
    /// has their checksums. `None` where the gang is made otherwise, or a vdev fails: it is to be replaced, and as its
    /// header names the same places all the time, it can be freed then.
    pub(crate) fn rewrite_gang<'a>(
        &'a self,
        job: &'a Placing<'a>,
        old: Blkptr,
        bytes: &'a [u8],
        depth: usize,
    ) -> BoxFuture<'a, Option<()>> {
        Box::pin(async move {
            let depth = depth.checked_sub(1)?;
            if old.dvas().count() != job.header_copies() {
                return None;
            }
            let gang = self.read_gang_header(&old, job.bookmark).await.ok()?;
            let (mut members, mut rest) = ([Blkptr::HOLE; GANG_BLKPTRS], bytes);
            for (member, old) in members.iter_mut().zip(gang.members) {
                let (part, behind) = rest.split_at_checked(usize::try_from(old.psize().get()).ok()?)?;
                *member = self.rewrite_member(job, old, part, depth).await?;
                rest = behind;
            }
            let dvas = header_places(&old, &members)?;
            let header = sealed_header(job.txg, &members, &dvas);
            (rest.is_empty() && self.write_copies(&dvas, &header).await.is_empty()).then_some(())
        })
    }

    async fn rewrite_member(
        &self,
        job: &Placing<'_>,
        old: Blkptr,
        part: &[u8],
        depth: usize,
    ) -> Option<Blkptr> {
        let dvas = places_of(&old);
        if old.is_gang() {
            self.rewrite_gang(job, old, part, depth).await?;
        } else {
            let bytes = Arc::new(IoBuf::copy_of(part));
            let is_written =
                old.dvas().count() == job.copies && self.write_copies(&dvas, &bytes).await.is_empty();
            is_written.then_some(())?;
        }
        self.member(job, part, dvas).ok()
    }
}

/// A block's DVAs, those that there are not too.
pub(crate) fn places_of(bp: &Blkptr) -> [Dva; 3] {
    [0, 1, 2].map(|copy| bp.dva(copy))
}

/// The copies of a gang's header, without what the members take.
fn header_places(bp: &Blkptr, members: &[Blkptr]) -> Option<[Dva; 3]> {
    let mut dvas = places_of(bp);
    for (copy, dva) in dvas.iter_mut().enumerate().filter(|(_, dva)| dva.is_valid()) {
        let asize = dva.asize.get().checked_sub(of_members(members, copy))?;
        *dva = Dva { gang: false, asize: Asize::new(asize), ..*dva };
    }
    Some(dvas)
}

/// What members take in their DVAs of one place.
fn of_members(members: &[Blkptr], copy: usize) -> u64 {
    members.iter().map(|member| member.dva(copy).asize.get()).sum()
}

/// A gang's header. Its checksum is seeded with its first place, so it is sealed anew for each that is tried.
fn sealed_header(txg: Txg, members: &[Blkptr; GANG_BLKPTRS], dvas: &[Dva; 3]) -> Arc<IoBuf> {
    let verifier = [dvas[0].vdev.get().into(), dvas[0].offset.get(), txg.get(), 0];
    let mut header = IoBuf::copy_of(GangHeaderPhys::new(*members, verifier).as_bytes());
    vdev::label::seal_part(&mut header, verifier);
    Arc::new(header)
}
