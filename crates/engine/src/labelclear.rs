//! Wiping the labels of a device.

use crate::admit::Claim;
use crate::{Holder, refusal};
use control::{Failure, FailureKind, LabelClear};
use env::OpenMode;
use std::path::Path;
use vdev::clear_labels;

impl Holder {
    pub(super) async fn label_clear(&self, call: LabelClear) -> Result<(), Failure> {
        let _taking = self.taking.lock().await;
        let device = call.device.as_str();
        let failed = |line: String| Failure::new(FailureKind::Other, line);
        let facts = self.leaf_facts(Path::new(device)).await;
        let facts = facts.map_err(|e| failed(format!("failed to open {device}: {}", refusal::chain(&e))))?;
        check_claim(device, facts.claim, call.force)?;
        let opened = self.env.open(Path::new(device), OpenMode::ReadWrite).await;
        let opened =
            opened.map_err(|e| failed(format!("failed to open {device}: {}", refusal::chain(&e))))?;
        match clear_labels(&opened).await {
            Ok(cleared) if cleared > 0 => Ok(()),
            _ => Err(failed(format!("failed to clear label for {device}")).exits(255)),
        }
    }
}

/// A device of an open pool is never wiped; one of another pool only by force.
fn check_claim(device: &str, claim: Option<(Claim, String)>, force: bool) -> Result<(), Failure> {
    let busy = |line: String| Failure::new(FailureKind::Busy, line);
    let hint = || busy("use '-f' to override the following error:".to_owned());
    match claim {
        Some((Claim::Active | Claim::Spare, pool)) => {
            let hint = if force { ". Offline the disk first to clear its label." } else { "" };
            let line = format!("{device} is a member (ACTIVE) of pool \"{pool}\"{hint}");
            Err(busy(line).telling(vec![String::new()]))
        }
        Some((Claim::Exported, pool)) if !force => {
            Err(hint().and(format!("{device} is a member of exported pool \"{pool}\"")))
        }
        Some((Claim::PotentiallyActive, pool)) if !force => {
            Err(hint().and(format!("{device} is a member of potentially active pool \"{pool}\"")))
        }
        _ => Ok(()),
    }
}
