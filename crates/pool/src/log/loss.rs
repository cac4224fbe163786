//! Logs that break off: what lies behind the place is looked for, and told.

use env::BoxFuture;
use ondisk::Blkptr;
use ondisk::zil::ZilHeader;
use units::{ObjsetId, VdevOffset, ZilSeq};

use vdev::Address;
use zil::{LogLoss, LogWalk, loss_behind};

use crate::Pool;

/// How far around the place is looked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// At each import after a crash, for each log.
    Near,
    /// Where somebody asks, or a log is known to be damaged.
    Far,
}

const NEAR_BYTES: u64 = 256 << 10;
const FAR_BYTES: u64 = 256 << 20;

impl Reach {
    const fn bytes(self) -> u64 {
        match self {
            Self::Near => NEAR_BYTES,
            Self::Far => FAR_BYTES,
        }
    }
}

impl Pool {
    /// What lies behind the block at `place`, which is not there; nothing when that seems to be the log's end.
    pub(crate) async fn loss_behind(
        &self,
        place: &Blkptr,
        newest: ZilSeq,
        header: &ZilHeader,
        reach: Reach,
    ) -> Option<LogLoss> {
        let (vdev, offset) = (place.dva(0).vdev, place.dva(0).offset.get());
        let top = self.vdevs.top(vdev).ok()?;
        // Where blocks have parity they do not lie in one piece: then only the header is asked.
        let is_plain = top.kind().holds_copies() && top.is_usable();
        let extent = if is_plain { top.asize_of_leaf() } else { 0 };
        let range = offset.saturating_sub(reach.bytes()).min(extent)
            ..offset.saturating_add(reach.bytes()).min(extent);
        let read = |from: u64, len: usize| {
            let at = Address::now(vdev, VdevOffset::new(from));
            let read = async move { self.vdevs.read(at, len, &|_| true).await.ok() };
            Box::pin(read) as BoxFuture<'_, _>
        };
        loss_behind(&read, range, place, newest, header).await
    }

    /// What a log has lost, walked again to where it breaks off.
    pub(crate) async fn loss_of(&self, objset: ObjsetId, header: &ZilHeader) -> Option<LogLoss> {
        let mut walk = LogWalk::new(objset, header, &*self.log_store);
        while let Ok(Some(_)) = walk.next().await {}
        self.loss_behind(&walk.place(), walk.newest_record(), header, Reach::Far).await
    }
}
