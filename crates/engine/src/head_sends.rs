//! The datasets whose heads are being sent. Such a dataset is not mounted, because a change would
//! free blocks that the send has still to read.

use parking_lot::Mutex;
use std::sync::Arc;
use units::ObjsetId;

/// A dataset by the name of its pool and its objset.
type Head = (String, ObjsetId);

/// The datasets whose heads are being sent. Clones are the same table.
#[derive(Clone, Default)]
pub struct HeadSends(Arc<Mutex<Vec<Head>>>);

impl HeadSends {
    /// Records that a head is being sent, until the result is dropped.
    pub fn begin(&self, pool: &str, objset: ObjsetId) -> HeadSend {
        let head = (pool.to_owned(), objset);
        self.0.lock().push(head.clone());
        HeadSend { table: self.clone(), head }
    }

    /// Returns true if the head is being sent.
    pub fn has(&self, pool: &str, objset: ObjsetId) -> bool {
        self.0.lock().iter().any(|(of, sent)| of == pool && *sent == objset)
    }
}

/// The send of a head.
pub struct HeadSend {
    table: HeadSends,
    head: Head,
}

impl Drop for HeadSend {
    fn drop(&mut self) {
        let mut heads = self.table.0.lock();
        if let Some(index) = heads.iter().position(|head| *head == self.head) {
            heads.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_sent_until_the_last_of_its_sends_has_ended() {
        let (table, objset) = (HeadSends::default(), ObjsetId::new(7));
        let [first, second] = [(); 2].map(|()| table.begin("p", objset));
        drop(first);
        assert!(table.has("p", objset) && !table.has("q", objset) && !table.has("p", ObjsetId::new(8)));
        drop(second);
        assert!(!table.has("p", objset));
    }
}
