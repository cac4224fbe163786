//! What a package carries beside a snapshot: properties of its dataset and of itself, and holds.
//!
//! ```text
//!  stream   compression=lz4          -o compression=gzip      -x compression
//!              │ received               │ set here               │ inherited, whatever was received
//!              ▼                        ▼                        ▼
//!  in force unless ◄───────────── one of these is there
//! ```

use super::Whole;
use crate::props::{Access, dataset_prop, is_user_prop};
use crate::{Held, Holder, refusal};
use control::DatasetReceive;
use dsl::PropValue;
use ondisk::{NvList, NvValue};
use pool::Inherit;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// Of the dataset; none where the stream says nothing of them.
    pub props: Option<Vec<(String, PropValue)>>,
    /// Those of them that are not to be in force.
    pub inherited: Vec<String>,
    pub snap_props: Vec<(String, PropValue)>,
    pub holds: Vec<String>,
}

impl Carried {
    /// Returns what comes with the snapshot with this guid, which is sent as a snapshot of the
    /// dataset `head`. `is_top` is true for the topmost dataset of the package.
    pub fn of(whole: &Whole, head: &str, guid: u64, call: &DatasetReceive, is_top: bool) -> Self {
        let owner = whole.package.as_ref().and_then(|package| Some((package, package.owner_of(guid)?)));
        let Some((package, (owner, snap))) = owner else {
            return Self { inherited: call.excluded_props.clone(), ..Self::default() };
        };
        // A snapshot of a promoted clone may be sent as a snapshot of its former owner.
        let named = package.members.iter().find(|member| member.name == head);
        let (member, owner, snap) = match named.and_then(|named| Some((named, named.name_of(guid)?))) {
            Some((named, snap)) => (named, named, snap),
            None => (named.unwrap_or(owner), owner, snap),
        };
        let mut inherited = call.excluded_props.clone();
        if !is_top {
            // What is set on the topmost is for those below it, too.
            inherited
                .extend(call.props.iter().map(|(name, _)| name.clone()).filter(|name| is_inherited(name)));
        }
        let is_taken = |name: &str| is_inherited(name) || !call.excluded_props.iter().any(|one| one == name);
        let props = member.props.as_ref().map(|props| {
            let all = values(props).into_iter();
            all.filter(|(name, _)| name != "keylocation" && is_taken(name)).collect()
        });
        let has_holds = whole.has_holds && !call.skip_holds;
        let holds = owner.holds_of(snap).filter(|_| has_holds);
        Self {
            props,
            inherited,
            snap_props: owner.props_of(snap).map(values).unwrap_or_default(),
            holds: holds.map_or_else(Vec::new, |holds| holds.iter().map(|(tag, _)| tag.to_owned()).collect()),
        }
    }
}

fn is_inherited(name: &str) -> bool {
    is_user_prop(name) || dataset_prop(name).is_some_and(|def| def.access == Access::Inherit)
}

fn values(list: &NvList) -> Vec<(String, PropValue)> {
    let value = |value: &NvValue| match value {
        NvValue::U64(number) => Some(PropValue::Number(*number)),
        NvValue::Str(text) => Some(PropValue::Text(text.clone())),
        _ => None,
    };
    list.iter().filter_map(|(name, of)| Some((name.to_owned(), value(of)?))).collect()
}

impl Holder {
    /// Takes over what came with a snapshot of a dataset; gives what could not be.
    pub(super) async fn take_over(
        &self,
        held: &Held,
        snapshot: &str,
        head: &str,
        carried: Carried,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        let has_props = carried.props.is_some();
        let sides =
            [(head, carried.props), (snapshot, Some(carried.snap_props).filter(|props| !props.is_empty()))];
        for (name, props) in sides {
            let Some(props) = props else { continue };
            match held.pool.receive_props(name, props).await {
                Ok(refused) => warnings.extend(refused.into_iter().map(|(prop, error)| {
                    format!("cannot receive {prop} property on {name}: {}", refusal::reason(&error))
                })),
                Err(error) => warnings.extend(refusal::pool("receive properties of", name, &error).stderr),
            }
        }
        for prop in carried.inherited {
            // What is set here is in force anyway.
            if has_props && !self.is_set_here(held, head, &prop).await {
                let inherited = held.pool.inherit_prop(head, &prop, Inherit::default()).await;
                warnings.extend(inherited.err().map(|error| {
                    format!("cannot receive {prop} property on {head}: {}", refusal::reason(&error))
                }));
            }
        }
        for tag in carried.holds {
            let name = vec![snapshot.to_owned()];
            if let Err(error) = held.pool.hold(tag, name).await {
                warnings.extend(refusal::pool("hold", snapshot, &error).stderr);
            }
        }
        warnings
    }

    async fn is_set_here(&self, held: &Held, head: &str, prop: &str) -> bool {
        let Ok(dataset) = self.dataset(held, head).await else { return false };
        let own = held.pool.dsl().own_props(&dataset, false).await.unwrap_or_default();
        own.iter().any(|one| one.name == prop && !one.received)
    }
}
