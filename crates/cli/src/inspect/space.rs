//! Space maps, in sum.

use super::report::Report;
use ondisk::SpaceMapPhys;
use pool::{Pool, PoolError};
use std::sync::Arc;
use units::ObjectId;

/// Each vdev's metaslabs: how much of them is in use, as the space maps' headers say.
pub async fn space_maps(pool: &Arc<Pool>) -> Result<Report, PoolError> {
    let mut report = Report::default();
    for top in pool.vdevs().tops() {
        let config = top.config();
        let mut vdev = Report::default();
        vdev.value("asize", config.asize, "bytes that can be allocated");
        vdev.value("metaslab_bytes", 1_u64 << config.metaslab_shift.min(63), "size of a metaslab");
        vdev.value("metaslab_array", config.metaslab_array, "object that lists the space maps");
        if config.metaslab_array != 0 {
            let array = pool.dsl().mos().hold(ObjectId::new(config.metaslab_array)).await?;
            let count = (config.asize >> config.metaslab_shift.min(63)).min(METASLABS_MAX);
            for index in 0..count {
                let mut word = [0; 8];
                array.read(index * 8, &mut word).await?;
                let text = one(pool, ObjectId::new(u64::from_le_bytes(word))).await?;
                vdev.value(format!("metaslab {index}"), text, "");
            }
        }
        report.section(format!("vdev {}", top.id()), "a top-level vdev", vdev);
    }
    Ok(report)
}

/// More than any vdev has: the format aims at 200, and allows 131,072.
const METASLABS_MAX: u64 = 1 << 17;

async fn one(pool: &Arc<Pool>, object: ObjectId) -> Result<String, PoolError> {
    if object.get() == 0 {
        return Ok("never used".into());
    }
    let map = pool.dsl().mos().hold(object).await?;
    Ok(match SpaceMapPhys::decode(&map.bonus()) {
        Ok(phys) => {
            let (allocated, length) = (phys.allocated.get(), phys.length.get());
            format!("object {object}, {allocated} bytes in use, {length} bytes of entries")
        }
        Err(error) => format!("object {object}: {error}"),
    })
}
