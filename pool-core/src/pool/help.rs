//! What is tried for a request that its own space does not serve, in order, each followed by a
//! new search.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::asker::Asker;
use super::books::Holder;
use super::error::{Cause, PoolError, Remedy, Shortage};
use super::inner::{CLEAN, Failed, Inner};
use super::sabotage::{IGNORES_HUB_FENCES, QUERIES_IN_CAPTURE};
use super::stream::StreamId;
use crate::device::Device;
use crate::range::{AllocError, Block, Request};
use crate::threads::{HUB, Owner, Threads};

/// The steps, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Take what is common, if the asker waits for nothing there.
    Common,
    /// Take back what is done.
    Poll,
    /// Have the asker's stream wait for the blocks of its own space.
    OwnParcels,
    /// Have it wait for what is common.
    Join,
    /// Have it wait for one other stream, and take a free stretch of that.
    Steal,
    /// Empty the caches of all threads.
    Caches,
    /// Put all that is free together, with all the waits that takes.
    Gather,
    /// Take more from the device.
    Grow,
    /// Wait on the host.
    WaitOnHost,
    /// Give idle arenas back, and take one that fits.
    Exchange,
}

const ORDER: [Step; 10] = [
    Step::Common,
    Step::Poll,
    Step::OwnParcels,
    Step::Join,
    Step::Steal,
    Step::Caches,
    Step::Gather,
    Step::Grow,
    Step::WaitOnHost,
    Step::Exchange,
];

/// How often the program is asked to free something for one request.
const MOST_APPEALS: u32 = 16;

/// A request on its way through the steps.
pub(super) struct Plea<'a, D: Device> {
    pub(super) asker: &'a Asker<D>,
    pub(super) request: &'a Request,
    pub(super) space: Owner,
    /// The last of the hub's fences that the asker waited for.
    pub(super) joined: u64,
    /// Whether the pool has all that it may have: then memory is worth more than waits.
    pub(super) tight: bool,
    /// The last call of the device that failed on the way.
    pub(super) failure: Option<Failed<D>>,
}

impl<D: Device> Plea<'_, D> {
    /// What a step got from the device; a failure is no help, and kept for the report.
    pub(super) fn note<R>(&mut self, result: Result<R, Failed<D>>) -> Option<R> {
        result.map_err(|failure| self.failure = Some(failure)).ok()
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Serves a request for which the asker's own space has no block.
    #[cold]
    pub(super) fn help(
        &self,
        asker: &Asker<D>,
        request: &Request,
    ) -> Result<Block, PoolError<D::Error>> {
        let space = self.space_for(asker)?;
        let joined = asker.number().map_or(0, |number| {
            self.with_books(|books| books.streams.get(&number).map_or(0, |known| known.joined))
        });
        let mut plea = Plea { asker, request, space, joined, tight: self.is_tight(), failure: None };
        if self.take_due() {
            self.drain(&mut plea.failure);
        }
        if let Some(block) = self.search(&plea)? {
            return Ok(block);
        }
        for _ in 0..MOST_APPEALS {
            for step in ORDER {
                if self.take_step(step, &mut plea)
                    && let Some(block) = self.search(&plea)?
                {
                    return Ok(block);
                }
                self.check_alive()?;
            }
            let shortage = self.shortage(&plea);
            let freed = self.on_shortage.as_ref().is_some_and(|callback| callback(&shortage));
            let progress =
                freed && self.free_bytes_anywhere() > shortage.free_bytes + shortage.cached_bytes;
            if !progress {
                return Err(PoolError::OutOfMemory {
                    shortage: Box::new(shortage),
                    cause: Cause(plea.failure),
                });
            }
        }
        let shortage = self.shortage(&plea);
        Err(PoolError::OutOfMemory { shortage: Box::new(shortage), cause: Cause(plea.failure) })
    }

    /// Looks in the asker's space, and in what is common if the asker may.
    fn search(&self, plea: &Plea<'_, D>) -> Result<Option<Block>, PoolError<D::Error>> {
        let served = if plea.space == HUB {
            self.with_books(|books| {
                let ready = books.unjoined(plea.asker.number(), plea.joined).next().is_none();
                ready.then(|| self.shared.allocate_past_caches(HUB, plea.request))
            })
        } else {
            Some(self.shared.allocate_in(plea.space, plea.request))
        };
        match served {
            Some(Ok(block)) => Ok(Some(block)),
            Some(Err(AllocError::OutOfMetadata(_))) => Err(PoolError::OutOfHostMemory),
            Some(Err(_)) | None => Ok(None),
        }
    }

    /// Takes a step. False: it changed nothing, so that a new search is not worth while.
    fn take_step(&self, step: Step, plea: &mut Plea<'_, D>) -> bool {
        let capturing = self.is_capturing();
        let waits = plea.asker.waits().is_some();
        match step {
            Step::Common => self.take_common(plea),
            Step::Poll => {
                let polled = (!capturing || QUERIES_IN_CAPTURE) && self.poll(&mut plea.failure);
                if polled {
                    self.take_common(plea);
                }
                polled
            }
            Step::OwnParcels => waits && self.collect_own(plea),
            Step::Join => {
                let joined = waits && self.join_hub(plea);
                if joined {
                    self.take_common(plea);
                }
                joined
            }
            Step::Steal => waits && self.steal(plea),
            Step::Caches => {
                self.shared.flush();
                true
            }
            Step::Gather => self.gather(plea),
            Step::Grow => self.grow(plea),
            Step::WaitOnHost => !capturing && self.wait_for_enough(plea),
            Step::Exchange => !capturing && self.exchange(plea),
        }
    }

    /// Moves a stretch of the hub to the asker's space, if the asker waits for nothing there.
    pub(super) fn take_common(&self, plea: &Plea<'_, D>) -> bool {
        if plea.space == HUB {
            return true;
        }
        self.with_books(|books| {
            // Clean memory, and a graph's, waits for nothing: no device-side wait makes it so.
            let ready = match plea.asker {
                Asker::Known { number, .. } => {
                    books.unjoined(Some(*number), plea.joined).next().is_none()
                }
                _ => books.hub.is_empty(),
            };
            (ready || IGNORES_HUB_FENCES) && self.lend(plea, self.is_alone(books, plea.space))
        })
    }

    /// Whether no other space has memory, or is about to: then this one gets all there is.
    fn is_alone(&self, books: &super::books::Books<D>, space: Owner) -> bool {
        let others = books.spaces.iter().enumerate().skip(CLEAN.0 as usize);
        others.filter(|&(place, _)| place as u32 != space.0).all(|(place, holder)| match holder {
            Holder::Nobody => true,
            _ => self.shared.use_of(Owner(place as u32)).owned_bytes == 0,
        })
    }

    /// Lends a stretch of the hub: all there is in one piece to who is alone, else a part that
    /// grows with what the space has.
    fn lend(&self, plea: &Plea<'_, D>, alone: bool) -> bool {
        let longest = self.shared.use_of(HUB).longest_run_bytes;
        self.portions(plea, longest, alone)
            .into_iter()
            .any(|(size_bytes, align_bytes)| self.shared.lend(plea.space, size_bytes, align_bytes))
    }

    /// The sizes and alignments of stretches that would serve a request, the most wanted first.
    pub(super) fn portions(
        &self,
        plea: &Plea<'_, D>,
        longest_bytes: u64,
        alone: bool,
    ) -> Vec<(u64, u64)> {
        let shape = self.shared.shape();
        let size_bytes = plea.request.size_bytes.checked_next_multiple_of(shape.bytes(1));
        let Some(size_bytes) = size_bytes else { return Vec::new() };
        let align_bytes = plea.request.align_bytes.max(shape.bytes(1));
        let mut portions = Vec::new();
        if alone {
            portions.push((longest_bytes, 1));
        } else {
            let owned = self.shared.use_of(plea.space).owned_bytes;
            let portion = (owned / PORTIONS_OF_OWNED).min(longest_bytes / 2);
            if portion > size_bytes && !plea.tight {
                portions.push((portion & !(shape.bytes(1) - 1), align_bytes));
            }
        }
        if shape.has_spans() && size_bytes <= shape.bytes(shape.small_granules) {
            let span_bytes = shape.bytes(shape.span_granules.into());
            portions.push((span_bytes, span_bytes.max(align_bytes)));
        }
        portions.push((size_bytes, align_bytes));
        portions.retain(|&(portion, _)| portion >= size_bytes && portion <= longest_bytes);
        portions
    }

    /// Whether the pool has so much that it can hardly grow.
    fn is_tight(&self) -> bool {
        self.with_books(|books| {
            books.limit_bytes.is_some_and(|limit| books.reserved_bytes.saturating_add(self.arena_bytes) > limit)
        })
    }

    /// Bytes in spaces and caches that are not given out.
    fn free_bytes_anywhere(&self) -> u64 {
        let reserved = self.with_books(|books| books.reserved_bytes);
        reserved.saturating_sub(self.shared.stats().live_bytes)
    }

    /// What is where, for a person.
    #[cold]
    pub(super) fn shortage(&self, plea: &Plea<'_, D>) -> Shortage {
        let stats = self.stats();
        let mut by_stream: Vec<(StreamId, u64)> = Vec::new();
        let (limit_bytes, captures) = self.with_books(|books| {
            for (place, holder) in books.spaces.iter().enumerate() {
                let Holder::Stream(number) = holder else { continue };
                let space = Owner(place as u32);
                let in_use = self.shared.use_of(space);
                let deferred: u64 = books
                    .open
                    .iter()
                    .chain(&books.closed)
                    .filter(|parcel| parcel.home == space)
                    .map(|parcel| parcel.size_bytes)
                    .sum();
                let free = in_use.owned_bytes.saturating_sub(in_use.used_bytes) + deferred;
                if Some(*number) != plea.asker.number() && free > 0 {
                    by_stream.push((StreamId { number: *number, space: space.0 }, free));
                }
            }
            let captures = books.captures.iter().map(|capture| capture.graph).collect();
            (books.limit_bytes, captures)
        });
        let captures: Vec<_> = captures;
        let size_bytes = plea.request.size_bytes;
        let remedy =
            if !captures.is_empty() && stats.deferred_bytes + stats.free_bytes >= size_bytes {
                Remedy::EndCapture
            } else if stats.free_bytes >= size_bytes {
                Remedy::Defragment
            } else if limit_bytes
                .is_some_and(|limit| limit < stats.reserved_bytes.saturating_add(size_bytes))
            {
                Remedy::RaiseLimit
            } else {
                Remedy::FreeMemory
            };
        Shortage {
            size_bytes,
            align_bytes: plea.request.align_bytes,
            live_bytes: stats.live_bytes,
            cached_bytes: stats.cached_bytes,
            free_bytes: stats.free_bytes,
            deferred_bytes: stats.deferred_bytes,
            by_stream,
            largest_free_bytes: self.shared.largest_free_bytes(),
            reserved_bytes: stats.reserved_bytes,
            limit_bytes,
            captures,
            remedy,
        }
    }
}

/// Of what a stream has, so large a part is added at a time.
const PORTIONS_OF_OWNED: u64 = 4;
