//! What a pool knows beside its blocks, under one lock: streams and their spaces, fences, parcels,
//! arenas, graphs. Nothing on the way of a hit takes it, and no device is called under it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::arenas::Arenas;
use super::fence::Shared;
use super::parcel::Parcel;
use super::sabotage::KEEPS_SERIAL;
use super::stream::GraphId;
use crate::device::Device;
use crate::threads::{Aside, Owner};

/// A stream that the pool knows.
pub(crate) struct Known<D: Device> {
    pub(crate) handle: D::Stream,
    /// Its space; none if all were taken.
    pub(crate) space: Option<Owner>,
    /// Whether the pool made it.
    pub(crate) own: bool,
    /// The last of the hub's fences that it waited for.
    pub(crate) joined: u64,
    /// Calls of the device that name it and are under way.
    pub(crate) busy: u32,
    /// Whether it is about to be retired: no call names it any more.
    pub(crate) retiring: bool,
}

/// Whose a space is, and with that what its free memory waits for.
pub(crate) enum Holder<D: Device> {
    /// Nobody's: it has nothing.
    Nobody,
    /// Requests' that name no stream. It waits for nothing.
    Clean,
    /// A stream's. It waits for that.
    Stream(u32),
    /// A graph's, for one stream of its capture.
    Graph,
    /// A stream's or a graph's that is gone. It waits for fences.
    Gone(Vec<Shared<D>>),
}

/// A fence that the hub's memory is behind.
pub(crate) struct HubFence<D: Device> {
    pub(crate) fence: Shared<D>,
    /// The stream in which it was recorded: that one need not wait.
    pub(crate) by: Option<u32>,
    pub(crate) serial: u64,
}

/// A capture that was announced.
pub(crate) struct Capture {
    /// The device's number of it, once known.
    pub(crate) id: Option<u64>,
    pub(crate) graph: GraphId,
    /// The stream that it was announced for, by its key.
    pub(crate) key: u64,
}

/// What belongs to a graph until it is released.
#[derive(Default)]
pub(crate) struct Graph {
    /// Its spaces, for each stream of its captures, by key.
    pub(crate) spaces: Vec<(u64, Owner)>,
    /// Blocks that its work uses and that the program freed.
    pub(crate) held: Vec<Aside>,
    pub(crate) captures: u32,
    /// Whether the program released it while something was captured.
    pub(crate) released: bool,
}

/// The books.
pub(crate) struct Books<D: Device> {
    pub(crate) streams: HashMap<u32, Known<D>>,
    /// The numbers of streams by their handles' keys.
    pub(crate) keys: HashMap<u64, u32>,
    pub(crate) next_number: u32,
    /// The holder of each space, by its number; the hub's is not used.
    pub(crate) spaces: Vec<Holder<D>>,
    pub(crate) hub: Vec<HubFence<D>>,
    pub(crate) hub_serial: u64,
    pub(crate) open: Vec<Parcel<D>>,
    pub(crate) closed: Vec<Parcel<D>>,
    /// Blocks and bytes of parcels that a thread has in its hands.
    pub(crate) in_hand_blocks: u64,
    pub(crate) in_hand_bytes: u64,
    /// Bytes of free stretches that a thread has in its hands.
    pub(crate) in_transit_bytes: u64,
    pub(crate) arenas: Arenas<D>,
    /// Of all arenas, and of those that are being asked of the device or given back.
    pub(crate) reserved_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) graphs: HashMap<GraphId, Graph>,
    /// Fences that nobody needs any more, to be dropped when the lock is open.
    pub(crate) garbage: Vec<Shared<D>>,
}

impl<D: Device> Books<D> {
    pub(crate) fn new(arenas: Arenas<D>, limit_bytes: Option<u64>, spaces: u32) -> Self {
        Self {
            streams: HashMap::new(),
            keys: HashMap::new(),
            next_number: 1,
            spaces: (0..spaces).map(|_| Holder::Nobody).collect(),
            hub: Vec::new(),
            hub_serial: 0,
            open: Vec::new(),
            closed: Vec::new(),
            in_hand_blocks: 0,
            in_hand_bytes: 0,
            in_transit_bytes: 0,
            arenas,
            reserved_bytes: 0,
            peak_reserved_bytes: 0,
            limit_bytes,
            captures: Vec::new(),
            graphs: HashMap::new(),
            garbage: Vec::new(),
        }
    }

    pub(crate) fn holder(&self, space: Owner) -> &Holder<D> {
        self.spaces.get(space.0 as usize).unwrap_or(&Holder::Nobody)
    }

    /// The live stream that a space is of.
    pub(crate) fn stream_of(&self, space: Owner) -> Option<u32> {
        match self.holder(space) {
            Holder::Stream(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn is_capturing(&self) -> bool {
        !self.captures.is_empty()
    }

    /// Puts the hub's memory behind one more fence.
    pub(crate) fn add_hub_fence(&mut self, fence: Shared<D>, by: Option<u32>) {
        self.hub_serial += 1;
        let serial = self.hub_serial;
        // A later fence of a stream is behind an earlier one.
        if by.is_some()
            && let Some(place) = self.hub.iter_mut().find(|place| place.by == by)
        {
            let earlier = core::mem::replace(&mut place.fence, fence);
            if !KEEPS_SERIAL {
                place.serial = serial;
            }
            self.garbage.push(earlier);
            return;
        }
        if by.is_none()
            && let Some(place) = self.hub.iter_mut().find(|at| Arc::ptr_eq(&at.fence, &fence))
        {
            place.serial = serial;
            self.garbage.push(fence);
            return;
        }
        self.hub.push(HubFence { fence, by, serial });
    }

    /// The hub's fences that a stream has not waited for yet.
    pub(crate) fn unjoined(
        &self,
        number: Option<u32>,
        joined: u64,
    ) -> impl Iterator<Item = &HubFence<D>> {
        self.hub.iter().filter(move |fence| {
            fence.serial > joined && (fence.by.is_none() || fence.by != number)
        })
    }

    /// Blocks and bytes that wait: in parcels, for graphs, and in hand.
    pub(crate) fn deferred(&self) -> (u64, u64) {
        let parcels = self.open.iter().chain(&self.closed);
        let in_parcels = parcels
            .map(|parcel| (parcel.blocks.len() as u64, parcel.size_bytes))
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        let held = self.graphs.values().flat_map(|graph| &graph.held);
        let in_graphs =
            held.fold((0, 0), |(blocks, bytes), aside| (blocks + 1, bytes + aside.size_bytes));
        (
            in_parcels.0 + in_graphs.0 + self.in_hand_blocks,
            in_parcels.1 + in_graphs.1 + self.in_hand_bytes,
        )
    }

    /// Every block that waits and is in no thread's hands.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Aside> {
        let parcels = self.open.iter().chain(&self.closed);
        let held = self.graphs.values().flat_map(|graph| &graph.held);
        parcels.flat_map(|parcel| &parcel.blocks).chain(held)
    }
}
