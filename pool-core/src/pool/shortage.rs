//! Why there is no memory, and what would help: for a person at once, and for a program that follows it.

use alloc::vec::Vec;
use core::fmt;

use super::Pool;
use super::advice::bytes::Human;
use super::asker::Asker;
use super::budget::TenantStats;
use super::error::PoolError;
use super::help::Plea;
use super::inner::{Failed, Inner};
use super::policy::{Growth, Pages, Settings, Way};
use super::stream::{GraphId, On, StreamId};
use crate::device::{Call, Capabilities, Device};
use crate::range::{Placement, Request};
use crate::threads::Threads;

/// What is where when a request is refused.
///
/// Written out it is a few lines: what was asked, what there is in which state, what was tried and what
/// was not, and which setting would have served. Sizes have a unit, and what was asked its bytes too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The size asked for.
    pub size_bytes: u64,
    /// The alignment asked for.
    pub align_bytes: u64,
    /// Held by the program.
    pub live_bytes: u64,
    /// In caches of threads.
    pub cached_bytes: u64,
    /// Free in arenas, for whichever stream.
    pub free_bytes: u64,
    /// Freed by the program, and waiting for work of the device or for a graph.
    pub deferred_bytes: u64,
    /// Those of the deferred bytes that graphs hold until they are released: no wait gives them.
    pub held_by_graphs_bytes: u64,
    /// Free bytes that other streams' work is queued before, and those deferred for them.
    pub by_stream: Vec<(StreamId, u64)>,
    /// The largest request that would be served now, for whichever stream.
    pub largest_free_bytes: u64,
    /// Taken from the device.
    pub reserved_bytes: u64,
    /// The most that may be taken.
    pub limit_bytes: Option<u64>,
    /// What the device had free when it was asked last, where it says so.
    pub device_free_bytes: Option<u64>,
    /// How the pool stands in its [budget](crate::budget::Budget), if it shares one.
    pub tenancy: Option<TenantStats>,
    /// Captures that are under way: while they last nothing is waited for or given back.
    pub captures: Vec<GraphId>,
    /// What was tried for it.
    pub tried: Tried,
    /// Whether the pool may grow: [`Growth::order`] lets it, and no capture keeps it from that.
    pub may_grow: bool,
    /// What would have helped.
    pub remedy: Remedy,
    /// Whether enough is free, in pieces, which [pages](Pages) would put together: the device has them, and
    /// the pool does without.
    pub pages_would_serve: bool,
    /// Whether every block has the bytes of a power of two, so that [best fit](Placement::BestFit) does
    /// with less.
    pub best_fit_may_serve: bool,
    /// The most that a range of the device has, if the request needs more.
    pub most_range_bytes: Option<u64>,
    /// Bytes that would have to be reserved for this request, with an eighth to spare.
    pub wanted_bytes: u64,
}

/// What was tried for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tried {
    /// Nothing: nobody made it, it was [explained](Pool::explain).
    #[default]
    Nothing,
    /// All that could be: it is about to be refused, or was.
    All,
}

/// What would have served a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// To free some of what is live.
    #[default]
    FreeMemory,
    /// To end the capture first: memory waits that could then be waited for.
    EndCapture,
    /// A higher limit.
    RaiseLimit,
    /// A larger space of offsets ([`PoolConfig::address_bytes`](super::PoolConfig::address_bytes)).
    MoreAddresses,
    /// Less fragmentation: there are enough free bytes, but not in one piece; or they are in blocks of powers
    /// of two.
    Defragment,
    /// To let the pool grow: it may not ([`Growth::order`]).
    AllowGrowth,
    /// To ask for it in parts: no range of the device has so much
    /// ([`Device::most_range_bytes`](crate::device::Device::most_range_bytes)).
    AskForLess,
    /// A higher [quota](crate::budget::Share::quota_bytes) of the budget.
    RaiseQuota,
    /// A higher [guarantee](crate::budget::Share::guaranteed_bytes), or a larger budget: what there is
    /// of it others have, or claim.
    RaiseGuarantee,
    /// To ask again: the pool is guaranteed so much, and others have borrowed it. They give it back
    /// when their blocks in it are freed, and are kept from borrowing until then.
    AwaitBorrowers,
}

/// A limit is advised in whole units of so many bytes.
const UNIT_BYTES: u64 = 1 << 20;

impl Shortage {
    /// The settings of a run that would have served the request, made of those that it had; none if no
    /// setting of the pool helps. A program that needs more later may be refused again, with more advice.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Pool, PoolConfig, PoolError};
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let config = PoolConfig::new().limit_bytes(8 << 20);
    /// let had = *config.settings();
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// let Err(PoolError::OutOfMemory { shortage, .. }) = pool.allocate(16 << 20) else { panic!() };
    /// let advised = shortage.advised(&had).unwrap();
    ///
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), advised.into())?;
    /// pool.allocate(16 << 20)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn advised(&self, had: &Settings) -> Option<Settings> {
        let mut advised = *had;
        match self.remedy {
            Remedy::Defragment if self.best_fit_may_serve => {
                advised.reuse.placement = Placement::BestFit;
            }
            Remedy::Defragment if self.pages_would_serve => advised.pages = Some(Pages::default()),
            Remedy::Defragment | Remedy::RaiseLimit => {
                advised.limit_bytes = Some(self.limit_bytes?.max(self.wanted_bytes));
            }
            Remedy::MoreAddresses => {
                advised.address_bytes = Some(self.wanted_bytes.checked_mul(2)?);
            }
            Remedy::AllowGrowth => advised.growth.order = Growth::new().order,
            _ => return None,
        }
        Some(advised)
    }

    /// The line before the last: what was tried, and what was not, and why.
    fn write_tries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_captured = !self.captures.is_empty();
        f.write_str(match (self.tried, is_captured) {
            (Tried::All, false) => {
                "\n  tried: waiting, memory of other streams, giving back what is idle"
            }
            (Tried::All, true) => "\n  tried: memory of other streams",
            (Tried::Nothing, false) => {
                "\n  not tried: waiting, memory of other streams, giving back what is idle"
            }
            (Tried::Nothing, true) => "\n  not tried: memory of other streams",
        })?;
        if self.may_grow {
            f.write_str(", growth")?;
        } else {
            f.write_str("; it may not grow")?;
        }
        if is_captured {
            f.write_str("; neither waiting nor giving back can be, for ")?;
            for (place, graph) in self.captures.iter().enumerate() {
                write!(f, "{}{graph}", if place == 0 { "" } else { ", " })?;
            }
            f.write_str(" is captured")?;
        }
        Ok(())
    }

    /// The last line: what to change.
    fn write_remedy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = Human(self.wanted_bytes);
        match self.remedy {
            Remedy::FreeMemory if self.tried == Tried::Nothing => f.write_str(
                "ask for it, since no setting stands against it; if it is refused, free some of what is live",
            ),
            Remedy::FreeMemory => f.write_str(
                "free some of what is live: the device has no more, and nothing that the pool has is idle",
            ),
            Remedy::EndCapture => f.write_str(
                "end the capture first: until then nothing is waited for, and enough is deferred or free",
            ),
            Remedy::RaiseLimit => match self.limit_bytes {
                Some(limit) => {
                    write!(f, "raise the limit of {} (limit_bytes) to {wanted}", Human(limit))
                }
                None => write!(f, "raise the limit (limit_bytes) to {wanted}"),
            },
            Remedy::MoreAddresses => write!(
                f,
                "set a larger space of offsets (address_bytes): {}",
                Human(self.wanted_bytes.saturating_mul(2))
            ),
            Remedy::Defragment if self.best_fit_may_serve => {
                f.write_str("place by best fit (Reuse::placement), which wastes less than buddies")?;
                if self.limit_bytes.is_some() {
                    write!(f, "; else raise the limit (limit_bytes) to {wanted}")?;
                }
                Ok(())
            }
            Remedy::Defragment => {
                f.write_str("enough is free, but not in one piece: ")?;
                match (self.pages_would_serve, self.limit_bytes) {
                    (true, _) => f.write_str(
                        "have memory in pages (Settings::pages), which puts pieces together",
                    ),
                    (false, Some(_)) => write!(f, "raise the limit (limit_bytes) to {wanted}"),
                    (false, None) => {
                        f.write_str("free what lies between, or ask first for what lives long")
                    }
                }
            }
            Remedy::AllowGrowth => {
                f.write_str("let the pool grow (Growth::order), or start it with more (preallocation)")
            }
            Remedy::AskForLess => {
                let most = Human(self.most_range_bytes.unwrap_or(0));
                write!(f, "ask for it in parts: the device gives no more than {most} at once")
            }
            Remedy::RaiseQuota => f.write_str("raise the quota of the budget (Share::quota_bytes)"),
            Remedy::RaiseGuarantee => f.write_str(
                "raise what is guaranteed (Share::guaranteed_bytes), or the budget: others have the rest",
            ),
            Remedy::AwaitBorrowers => f.write_str(
                "ask again: it is guaranteed, and others that borrowed it have live blocks there",
            ),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes", Human(self.size_bytes), self.size_bytes)?;
        if self.align_bytes > 1 {
            write!(f, ", aligned to {}", self.align_bytes)?;
        }
        write!(f, ") asked for\n  reserved {}", Human(self.reserved_bytes))?;
        if let Some(limit) = self.limit_bytes {
            write!(f, " of a limit of {}", Human(limit))?;
        }
        write!(
            f,
            ": {} live, {} free (the largest block has {}), {} in caches, {} deferred",
            Human(self.live_bytes),
            Human(self.free_bytes),
            Human(self.largest_free_bytes),
            Human(self.cached_bytes),
            Human(self.deferred_bytes),
        )?;
        if self.held_by_graphs_bytes > 0 {
            write!(
                f,
                ", of which graphs hold {} until released",
                Human(self.held_by_graphs_bytes)
            )?;
        }
        if let Some(free) = self.device_free_bytes {
            write!(f, "; the device has {} free", Human(free))?;
        }
        let mut streams = self.by_stream.iter();
        if let Some((stream, bytes)) = streams.next() {
            write!(f, "\n  free or deferred there: {} on {stream}", Human(*bytes))?;
            streams.try_for_each(|(stream, bytes)| write!(f, ", {} on {stream}", Human(*bytes)))?;
        }
        if let Some(tenancy) = &self.tenancy {
            write!(f, "\n  {tenancy}")?;
        }
        self.write_tries(f)?;
        f.write_str("\n  to do: ")?;
        self.write_remedy(f)
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Says what would have served: after what is where, and what would have helped, is known.
    pub(super) fn look_for_settings(
        &self,
        shortage: &mut Shortage,
        failure: &mut Option<Failed<D>>,
    ) {
        let (held, order) = self.with_books(|books| {
            let graphs = books.graphs.values().flat_map(|graph| &graph.held);
            (graphs.map(|held| held.block.size_bytes).sum(), books.growth.order)
        });
        shortage.held_by_graphs_bytes = held;
        if self.capabilities.contains(Capabilities::MEMORY) && shortage.captures.is_empty() {
            match self.call(Call::Memory, D::memory) {
                Ok(memory) => shortage.device_free_bytes = Some(memory.free_bytes),
                Err(failed) if self.is_poisoned() => *failure = Some(failed),
                Err(_) => {}
            }
        }
        let size_bytes = shortage.size_bytes;
        let may_grow = order.iter().any(|way| matches!(way, Way::InPlace | Way::Overflow));
        shortage.may_grow = may_grow
            && (shortage.captures.is_empty()
                || self.capabilities.contains(Capabilities::GROWS_IN_CAPTURE));
        let needed = shortage.reserved_bytes.saturating_add(size_bytes);
        let is_limited = shortage.limit_bytes.is_some_and(|limit| limit < needed);
        let is_free = shortage.free_bytes >= size_bytes;
        shortage.best_fit_may_serve = self.rounds();
        shortage.pages_would_serve = is_free
            && !self.rounds()
            && !self.is_paged()
            && self.capabilities.contains(Capabilities::PAGES);
        let is_unplaced = !is_limited
            && self.with_books(|books| {
                books.paging.is_none() && books.arenas.place(size_bytes, 0).is_none()
            });
        let can_extend = self.capabilities.contains(Capabilities::EXTEND);
        shortage.most_range_bytes = Some(self.device.most_range_bytes())
            .filter(|&most| size_bytes > most && !can_extend && !self.is_paged());
        shortage.remedy = match shortage.remedy {
            _ if shortage.most_range_bytes.is_some() => Remedy::AskForLess,
            Remedy::FreeMemory if !may_grow => Remedy::AllowGrowth,
            Remedy::RaiseLimit | Remedy::FreeMemory if self.rounds() => Remedy::Defragment,
            // It would have grown.
            Remedy::Defragment if is_unplaced && may_grow => Remedy::MoreAddresses,
            remedy => remedy,
        };
        let roomy = needed.saturating_add(needed / 8);
        shortage.wanted_bytes = roomy.checked_next_multiple_of(UNIT_BYTES).unwrap_or(roomy);
    }

    fn explain(
        &self,
        on: &On<'_, D::Stream>,
        request: &Request,
    ) -> Result<Shortage, PoolError<D::Error>> {
        self.check_request(request)?;
        let asker: Asker<D> = self.resolve(on)?;
        let space = self.space_for(&asker)?;
        let mut plea = Plea::new(&asker, request, space);
        let shortage = self.shortage(&mut plea);
        self.check_not_lost(&mut plea)?;
        Ok(shortage)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// How a request would stand if it were refused now: what is where, and what would help. For a look
    /// before a refusal, or after one that was handled; caches are emptied on the way, and nothing is
    /// waited for.
    ///
    /// # Errors
    ///
    /// As [`allocate_on`](Self::allocate_on), for a request that can never be served, a stream that is not
    /// known, or a device that is lost.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{On, Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let config = PoolConfig::new().limit_bytes(8 << 20);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// let block = pool.allocate(6 << 20)?;
    /// let shortage = pool.explain(On::Nothing, 4 << 20)?;
    /// assert_eq!((shortage.live_bytes, shortage.limit_bytes), (6 << 20, Some(8 << 20)));
    /// assert!(shortage.to_string().contains("raise the limit of 8 MiB"));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn explain<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        request: impl Into<Request>,
    ) -> Result<Shortage, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner().explain(&on.into(), &request.into())
    }
}
