//! How a handle names a block outside spans: by shard and node.

use crate::range::{Handle, Slot};

/// Bits of the node in a slot; the shard has those above.
const NODE_BITS: u32 = 24;

/// The most shards that a handle can tell apart.
pub(crate) const MOST_SHARDS: u32 = 1 << (u32::BITS - NODE_BITS);

/// One more than the last node of a shard that a handle can name.
pub(crate) const MOST_NODES: u32 = 1 << NODE_BITS;

/// The program's handle of a block outside spans, from its shard's. The node is below
/// [`MOST_NODES`], the shard below [`MOST_SHARDS`].
#[inline(always)]
pub(crate) fn outside(shard: u32, node: u32, handle: Handle) -> Handle {
    Handle::with_bits(Slot::Node(shard << NODE_BITS | node), handle.generation_bits())
}

/// The shard of a block outside spans, and the handle that the shard knows it by.
#[inline(always)]
pub(crate) fn in_shard(handle: Handle) -> (u32, Handle) {
    let named = handle.slot().index();
    let node = Slot::Node(named & (MOST_NODES - 1));
    (named >> NODE_BITS, Handle::with_bits(node, handle.generation_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for shard in [0, 1, MOST_SHARDS - 1] {
            for node in [0, 1, MOST_NODES - 1] {
                for generation in [1, u32::MAX >> 1] {
                    let handle = Handle::with_bits(Slot::Node(node), generation);
                    assert_eq!(in_shard(outside(shard, node, handle)), (shard, handle));
                }
            }
        }
    }
}
