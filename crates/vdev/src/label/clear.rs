//! Wiping labels, so that a device is nobody's.

use std::sync::Arc;

use env::{BufSlice, Device, DeviceError, Durability, IoBuf, boxed};
use ondisk::label::{LABELS, label_offset};
use units::LABEL_BYTES;

use crate::LeafLabels;

/// Wipes those of the four labels that hold a configuration; says how many. What is no label is
/// left as it is.
///
/// # Errors
/// Those of the device.
#[boxed]
pub async fn clear_labels(device: &Arc<dyn Device>) -> Result<usize, DeviceError> {
    let found = LeafLabels::read(device).await;
    let zeros = Arc::new(IoBuf::zeroed(usize::try_from(LABEL_BYTES).unwrap_or(usize::MAX)));
    let mut cleared = 0;
    for label in 0..LABELS {
        let Some(at) = label_offset(device.info().size_bytes, label) else { continue };
        if found.configs[label].is_some() {
            device.write(at, vec![BufSlice::from(zeros.clone())], Durability::Cached).await?;
            cleared += 1;
        }
    }
    device.flush().await?;
    Ok(cleared)
}
