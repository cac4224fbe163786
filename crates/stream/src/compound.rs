//! What holds several substreams together.
//!
//! ```text
//!  BEGIN (compound) + nvlist   END (its sum)   [ substream ]*   END (all zero)
//! ```
//! The nvlist, which tells of datasets, snapshots and properties, is for whoever receives all of it; a stream of
//! snapshots in a row (`-I`) has none.

use std::io;

use futures::io::{AsyncWrite, AsyncWriteExt};
use ondisk::send::{DrrBegin, DrrBody, DrrEnd, DrrRecord, HeaderType, StreamFeatures};
use ondisk::{ByteOrder, NvList};

use crate::sum::RunningSum;

/// A compound stream that is being written: substreams go to [`Self::sink`], one after the other.
#[derive(Debug)]
pub struct Compound<W> {
    sink: W,
}

impl<W: AsyncWrite + Unpin> Compound<W> {
    /// Begins one. `name` is the last snapshot's that is sent, `features` what the receiver must know to take
    /// the nvlist.
    ///
    /// # Errors
    /// The sink's.
    pub async fn begin(
        mut sink: W,
        name: &str,
        features: StreamFeatures,
        list: Option<&NvList>,
    ) -> io::Result<Self> {
        let payload = list.map_or_else(Vec::new, NvList::encode);
        let begin = DrrBegin::new(HeaderType::Compound, features).named(name);
        let begin = DrrRecord { payload_len: payload.len() as u32, ..DrrRecord::new(DrrBody::Begin(begin)) };
        let mut bytes = [&begin.encode()[..], &payload].concat();
        let mut sum = RunningSum::new(ByteOrder::Little);
        sum.update(&bytes);
        bytes.extend_from_slice(&end(sum.words()));
        put(&mut sink, &bytes).await?;
        Ok(Self { sink })
    }

    /// Where the next substream goes.
    pub fn sink(&mut self) -> &mut W {
        &mut self.sink
    }

    /// Ends it, and gives back the sink.
    ///
    /// # Errors
    /// The sink's.
    pub async fn end(mut self) -> io::Result<W> {
        put(&mut self.sink, &end([0; 4])).await?;
        Ok(self.sink)
    }
}

/// An END without a checksum of its own.
fn end(sum: [u64; 4]) -> [u8; ondisk::send::RECORD_BYTES] {
    let end = DrrEnd { checksum: sum.map(Into::into), ..DrrEnd::default() };
    DrrRecord::new(DrrBody::End(end)).encode()
}

async fn put<W: AsyncWrite + Unpin>(sink: &mut W, bytes: &[u8]) -> io::Result<()> {
    sink.write_all(bytes).await?;
    sink.flush().await
}
