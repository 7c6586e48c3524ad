//! What a pool knows beside its blocks, under one lock: streams and their spaces, fences, parcels,
//! arenas, graphs. Nothing on the way of a hit takes it, and no device is called under it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroUsize;

use hashbrown::HashMap;

use super::affinity::LIFETIMES_APART;
use super::arenas::Arenas;
use super::company::Company;
use super::decline::Decline;
use super::fence::{Shared, add_fence};
use super::first::Recent;
use super::floor::Pauses;
use super::migrate::Usual;
use super::movable::Movables;
use super::notice::Reclaims;
use super::pages::Paging;
use super::parcel::{Needs, Parcel};
use super::plenty::Plenty;
use super::policy::{Growth, Preallocation, Reclaim, Settings};
use super::shelves::Shelves;
use super::sources::{Joined, Sources};
use super::stains::Stains;
use super::stream::GraphId;
use super::vacate::Vacating;
use crate::device::Device;
use crate::range::Stretch;
use crate::threads::{Aside, Owner};

/// A stream that the pool knows.
pub(crate) struct Known<D: Device> {
    pub(crate) handle: D::Stream,
    /// Its space; none if all were taken.
    pub(crate) space: Option<Owner>,
    /// Those for blocks that live shorter or longer than most, if there were any.
    pub(crate) apart: [Option<Owner>; LIFETIMES_APART],
    /// Whether the pool made it.
    pub(crate) own: bool,
    /// The granule behind the pages that it got last for itself alone.
    pub(crate) front: Option<u64>,
    /// What it waited for.
    pub(crate) joined: Joined,
    /// Calls of the device that name it and are under way.
    pub(crate) busy: u32,
    /// Whether it is about to be retired: no call names it any more.
    pub(crate) retiring: bool,
}

/// Whose a space is, and with that what its free memory waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody's: it has nothing.
    Nobody,
    /// Requests' that name no stream. It waits for nothing.
    Clean,
    /// A stream's. It waits for that.
    Stream(u32),
    /// A graph's, for one stream of its capture.
    Graph,
    /// Arenas' that are vacated: nobody gets it.
    Vacated,
    /// A stream's or a graph's that is gone. It waits for what is left of that: a source.
    Gone(u32),
}

/// A capture that was announced.
pub(crate) struct Capture<D: Device> {
    /// The device's number of it, once known.
    pub(crate) id: Option<u64>,
    pub(crate) graph: GraphId,
    /// The stream that it was announced for, and its key.
    pub(crate) handle: D::Stream,
    pub(crate) key: u64,
}

/// A block that the program freed and that the work of graphs uses.
pub(crate) struct Held<D: Device> {
    pub(crate) block: Aside,
    /// The other graphs that do.
    pub(crate) others: Vec<GraphId>,
    /// What it waits for beside them.
    pub(crate) needs: Needs<D>,
}

/// What belongs to a graph until it is released.
pub(crate) struct Graph<D: Device> {
    /// Its spaces, for each stream of its captures, by key.
    pub(crate) spaces: Vec<(u64, Owner)>,
    /// Blocks that its work uses and that the program freed.
    pub(crate) held: Vec<Held<D>>,
    pub(crate) captures: u32,
    /// Whether the program released it while something was captured.
    pub(crate) released: bool,
}

/// Closed parcels of one space that wait for the same streams.
const MOST_ALIKE: usize = 4;

impl<D: Device> Default for Graph<D> {
    fn default() -> Self {
        Self { spaces: Vec::new(), held: Vec::new(), captures: 0, released: false }
    }
}

/// The books.
pub(crate) struct Books<D: Device> {
    pub(crate) streams: HashMap<u32, Known<D>>,
    /// The numbers of streams by their handles' keys.
    pub(crate) keys: HashMap<u64, u32>,
    /// The last serial of a fence.
    pub(crate) serial: u64,
    /// The holder of each space, by its number; the hub's is not used.
    pub(crate) spaces: Vec<Holder>,
    /// What the hub's free memory waits for.
    pub(crate) stains: Stains,
    pub(crate) sources: Sources<D>,
    pub(crate) shelves: Shelves,
    pub(crate) open: Vec<Parcel<D>>,
    pub(crate) closed: Vec<Parcel<D>>,
    /// Blocks and bytes that were put into parcels since these were drained last.
    pub(crate) undrained_blocks: u64,
    pub(crate) undrained_bytes: u64,
    /// Blocks and bytes of parcels that a thread has in its hands.
    pub(crate) in_hand_blocks: u64,
    pub(crate) in_hand_bytes: u64,
    /// Of the bytes that wait, those that rest.
    pub(crate) resting_bytes: u64,
    /// Bytes of free stretches that a thread has in its hands.
    pub(crate) in_transit_bytes: u64,
    /// How often memory of the hub was given to a space.
    pub(crate) given: u64,
    pub(crate) arenas: Arenas<D>,
    /// Memory in pages, in a pool that has it so.
    pub(crate) paging: Option<Paging<D>>,
    /// Ranges that could be neither entered nor given back, and their sizes: tried again when
    /// arenas go back, and at the end.
    pub(crate) strays: Vec<(Arc<D::Range>, u64)>,
    /// Of all arenas and pages, and of those that are being asked of the device or given back.
    pub(crate) reserved_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) preallocation: Preallocation,
    /// From so many bytes reserved on memory is short, as it is at the limit.
    pub(crate) short_from_bytes: Option<u64>,
    pub(crate) growth: Growth,
    pub(crate) reclaim: Reclaim,
    pub(crate) plenty: Plenty,
    pub(crate) recent: Recent,
    pub(crate) company: Company,
    /// The sizes of what was asked for lately.
    pub(crate) usual: Usual,
    pub(crate) movables: Movables,
    /// Arenas that are given back as soon as all of them is free.
    pub(crate) vacating: Vacating,
    /// Whether the device had less free memory than its floor, when it was asked last.
    pub(crate) is_below_floor: bool,
    /// When more than a look is done for the floor of free memory.
    pub(crate) floor_pauses: Pauses,
    pub(crate) captures: Vec<Capture<D>>,
    /// The threads that ask the device for an arena, as far as they have numbers: once for each.
    pub(crate) growers: Vec<Option<NonZeroUsize>>,
    /// Calls of the device under way that a capture forbids.
    pub(crate) uncapturable: u32,
    /// What is left of the preallocation for later.
    pub(crate) left_to_warm_bytes: u64,
    /// What was reserved when the device had no more for growth ahead of need.
    pub(crate) refused_ahead_at: u64,
    pub(crate) decline: Decline,
    /// Threads that tick for the pool.
    pub(crate) keepers: u32,
    /// Whether a range began at an address that is no granule's, and whether at one that is no
    /// window's.
    pub(crate) is_misaligned: bool,
    pub(crate) is_askew: bool,
    /// Where the next poll begins among all fences.
    pub(crate) polled: usize,
    pub(crate) graphs: HashMap<GraphId, Graph<D>>,
    /// Fences that nobody needs any more, to be dropped when the lock is open.
    pub(crate) garbage: Vec<Shared<D>>,
    /// Blocks that waited and are free, to be noted when the lock is open.
    pub(crate) reclaimed: Reclaims,
}

impl<D: Device> Books<D> {
    pub(crate) fn new(
        arenas: Arenas<D>,
        shelves: Shelves,
        settings: &Settings,
        spaces: u32,
    ) -> Self {
        Self {
            streams: HashMap::new(),
            keys: HashMap::new(),
            serial: 0,
            spaces: (0..spaces).map(|_| Holder::Nobody).collect(),
            stains: Stains::default(),
            sources: Sources::new(),
            shelves,
            open: Vec::new(),
            closed: Vec::new(),
            undrained_blocks: 0,
            undrained_bytes: 0,
            in_hand_blocks: 0,
            in_hand_bytes: 0,
            resting_bytes: 0,
            in_transit_bytes: 0,
            given: 0,
            arenas,
            paging: None,
            strays: Vec::new(),
            reserved_bytes: 0,
            peak_reserved_bytes: 0,
            limit_bytes: settings.limit_bytes,
            preallocation: settings.preallocation,
            short_from_bytes: settings.short_from_bytes,
            growth: settings.growth,
            reclaim: settings.reclaim,
            company: Company::default(),
            recent: Recent::default(),
            plenty: Plenty::default(),
            usual: Usual::default(),
            movables: Movables::new(),
            vacating: Vacating::default(),
            is_below_floor: false,
            floor_pauses: Pauses::default(),
            captures: Vec::new(),
            growers: Vec::new(),
            uncapturable: 0,
            left_to_warm_bytes: 0,
            refused_ahead_at: 0,
            decline: Decline::default(),
            keepers: 0,
            is_misaligned: false,
            is_askew: false,
            polled: 0,
            graphs: HashMap::new(),
            garbage: Vec::new(),
            reclaimed: Reclaims::default(),
        }
    }

    pub(crate) fn holder(&self, space: Owner) -> Holder {
        self.spaces.get(space.0 as usize).copied().unwrap_or(Holder::Nobody)
    }

    /// The live stream that a space is of.
    pub(crate) fn stream_of(&self, space: Owner) -> Option<u32> {
        match self.holder(space) {
            Holder::Stream(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn is_capturing(&self) -> bool {
        !self.captures.is_empty()
    }

    /// The graph of a capture that is under way.
    pub(crate) fn open_capture(&self) -> Option<GraphId> {
        self.captures.first().map(|capture| capture.graph)
    }

    /// Holds a space for somebody.
    pub(crate) fn set_holder(&mut self, space: Owner, holder: Holder) {
        if let Some(place) = self.spaces.get_mut(space.0 as usize) {
            *place = holder;
        }
    }

    /// The source that the free memory of a space waits for; none if it is clean.
    pub(crate) fn source_of(&self, space: Owner) -> Option<u32> {
        match self.holder(space) {
            Holder::Stream(number) | Holder::Gone(number) => Some(number),
            Holder::Nobody | Holder::Clean | Holder::Graph | Holder::Vacated => None,
        }
    }

    /// Enters a parcel: open, or closed. What is left of its space's holder, if that is gone, has
    /// to be waited for too: no stream does it any more.
    pub(crate) fn enter(&mut self, mut parcel: Parcel<D>) {
        if let Holder::Gone(source) = self.holder(parcel.home)
            && let Some(source) = self.sources.get(source)
        {
            for fence in &source.fences {
                parcel.add_fence(fence.clone());
            }
        }
        if parcel.is_open() {
            self.open.push(parcel);
            return;
        }
        if parcel.has_others() {
            self.closed.push(parcel);
            return;
        }
        // While nothing gets done, the number of fences is bounded nevertheless.
        let mut alike = self.closed.iter_mut().filter(|other| other.is_like(&parcel));
        if let Some(newest) = alike.nth(MOST_ALIKE - 1) {
            newest.blocks.append(&mut parcel.blocks);
            newest.size_bytes += parcel.size_bytes;
            for fence in parcel.fences {
                add_fence(&mut newest.fences, fence, &mut self.garbage);
            }
        } else {
            self.closed.push(parcel);
        }
    }

    /// Enters parcels of a space anew, whose holder is gone.
    pub(crate) fn enter_again(&mut self, space: Owner) {
        let open = self.open.extract_if(.., |parcel| parcel.home == space);
        let mut parcels: Vec<Parcel<D>> = open.collect();
        parcels.extend(self.closed.extract_if(.., |parcel| parcel.home == space));
        for parcel in parcels {
            self.enter(parcel);
        }
    }

    /// Stains a stretch of the hub by what a source has freed until now.
    pub(crate) fn stain(&mut self, stretch: Stretch, source: u32) {
        if self.sources.get(source).is_some() {
            self.stains.add(stretch, source, self.sources.epoch(source));
        } else {
            self.stains.remove(stretch);
        }
    }

    /// Blocks and bytes that wait: in parcels, for graphs, and in hand.
    pub(crate) fn deferred(&self) -> (u64, u64) {
        let parcels = self.open.iter().chain(&self.closed);
        let in_parcels = parcels
            .map(|parcel| (parcel.blocks.len() as u64, parcel.size_bytes))
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        let held = self.graphs.values().flat_map(|graph| &graph.held);
        let in_graphs =
            held.fold((0, 0), |(blocks, bytes), held| (blocks + 1, bytes + held.block.size_bytes));
        (
            in_parcels.0 + in_graphs.0 + self.in_hand_blocks,
            in_parcels.1 + in_graphs.1 + self.in_hand_bytes,
        )
    }

    /// Every block that waits and is in no thread's hands.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Aside> {
        let parcels = self.open.iter().chain(&self.closed);
        let held = self.graphs.values().flat_map(|graph| &graph.held).map(|held| &held.block);
        parcels.flat_map(|parcel| &parcel.blocks).chain(held)
    }
}
