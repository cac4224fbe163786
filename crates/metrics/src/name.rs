//! The labels by which vdevs are known.

use control::{NameStyle, VdevInfo, VdevKind, vdev_name};

/// What a vdev is called. Its name may come twice in a pool; its guid does once in a class: a spare that stands in is
/// among the spares, too.
pub(crate) struct Name<'a> {
    pool: &'a str,
    class: &'static str,
    kind: &'static str,
    vdev: String,
    guid: String,
}

impl<'a> Name<'a> {
    pub(crate) fn of(pool: &'a str, vdev: &VdevInfo) -> Self {
        let style = NameStyle { full_paths: true, ..NameStyle::default() };
        let name = match vdev.kind {
            VdevKind::Root => pool.to_owned(),
            _ => vdev_name(vdev, style),
        };
        Self {
            pool,
            class: vdev.class.word(),
            kind: vdev.kind.word(),
            vdev: name,
            guid: vdev.guid.to_string(),
        }
    }

    pub(crate) fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("pool", self.pool),
            ("class", self.class),
            ("type", self.kind),
            ("vdev", &self.vdev),
            ("guid", &self.guid),
        ]
    }
}
