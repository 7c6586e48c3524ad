//! What the hub's memory waits for: streams, and what is left of those that are gone.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::fence::{Shared, add_fence};
use super::stains::Stain;
use crate::device::Device;

/// Where waits come from.
pub(crate) struct Source<D: Device> {
    /// Fences that were recorded for it: the epoch of what is freed now.
    pub(crate) epoch: u64,
    /// The last of them, of this epoch; or all that is left to wait for. None: they are done.
    pub(crate) fences: Vec<Shared<D>>,
    pub(crate) recorded: u64,
    /// What is before this epoch is done, as seen by the host.
    pub(crate) done: u64,
    /// Whether it is a stream that the pool knows, in which more can be recorded.
    pub(crate) is_stream: bool,
}

/// All sources, by their numbers.
pub(crate) struct Sources<D: Device> {
    all: HashMap<u32, Source<D>>,
    /// Those that are fences alone, the newest last.
    left: Vec<u32>,
    drawn: u32,
}

/// Numbers from here on are of sources that never were streams.
pub(crate) const FIRST_LEFT: u32 = 1 << 31;

/// Sources that are fences alone.
const MOST_LEFT: usize = 8;

/// What was waited for: of each source the epoch, by number.
pub(crate) type Joined = Vec<(u32, u64)>;

impl<D: Device> Sources<D> {
    pub(crate) fn new() -> Self {
        Self { all: HashMap::new(), left: Vec::new(), drawn: 0 }
    }

    /// A stream that the pool knows.
    pub(crate) fn add_stream(&mut self, number: u32) {
        let fences = Vec::new();
        self.all.insert(number, Source { epoch: 0, fences, recorded: 0, done: 0, is_stream: true });
    }

    /// What fences are behind, as a source: a new one or, if there are many of the kind, one of those, which then waits for more. The number; none if there is nothing to wait
    /// for.
    pub(crate) fn add_fences(
        &mut self,
        fences: Vec<Shared<D>>,
        garbage: &mut Vec<Shared<D>>,
    ) -> Option<u32> {
        if fences.is_empty() {
            return None;
        }
        self.left.retain(|number| self.all.contains_key(number));
        let newest = self.left.last().copied().filter(|_| self.left.len() >= MOST_LEFT);
        let number = newest.unwrap_or_else(|| self.draw_number());
        let left = self.all.entry(number).or_insert_with(|| Source {
            epoch: 0,
            fences: Vec::new(),
            recorded: 0,
            done: 0,
            is_stream: false,
        });
        // Who waited for it before has not waited for this.
        left.recorded += 1;
        for fence in fences {
            add_fence(&mut left.fences, fence, garbage);
        }
        if newest.is_none() {
            self.left.push(number);
        }
        Some(number)
    }

    /// A number that no source has, and no stream of this process gets.
    fn draw_number(&mut self) -> u32 {
        loop {
            self.drawn = self.drawn.wrapping_add(1);
            let number = self.drawn | FIRST_LEFT;
            if !self.all.contains_key(&number) {
                return number;
            }
        }
    }

    /// A stream is gone; what is left is a fence behind all its work. The fences of before come
    /// back.
    pub(crate) fn end_stream(&mut self, number: u32, last: Vec<Shared<D>>) -> Vec<Shared<D>> {
        let Some(source) = self.all.get_mut(&number) else { return Vec::new() };
        source.is_stream = false;
        source.epoch += 1;
        source.recorded = source.epoch;
        core::mem::replace(&mut source.fences, last)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Source<D>> {
        self.all.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Source<D>> {
        self.all.get_mut(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Source<D>)> {
        self.all.iter().map(|(&number, source)| (number, source))
    }

    /// The epoch of what a source frees now.
    pub(crate) fn epoch(&self, number: u32) -> u64 {
        self.all.get(&number).map_or(0, |source| {
            // What is left of a stream that is gone is before its last fence.
            if source.is_stream { source.epoch } else { source.recorded.saturating_sub(1) }
        })
    }

    /// Whether what made a stain is done, as seen by the host.
    pub(crate) fn is_done(&self, stain: &Stain) -> bool {
        self.all.get(&stain.source).is_none_or(|source| stain.epoch < source.done)
    }

    /// Notes a fence that was just recorded in a stream, for what was freed in it before epoch
    /// `before`; the fences of before come back. Another thread may have noted a later one.
    pub(crate) fn note(&mut self, number: u32, epoch: u64, fence: Shared<D>) -> Vec<Shared<D>> {
        match self.all.get_mut(&number) {
            Some(source) if source.is_stream && epoch > source.recorded => {
                source.recorded = epoch;
                core::mem::replace(&mut source.fences, alloc::vec![fence])
            }
            _ => alloc::vec![fence],
        }
    }

    /// Takes fences that are done off the sources. Sources that are gone and done are forgotten.
    pub(crate) fn forget(
        &mut self,
        is_done: impl Fn(&Shared<D>) -> bool,
        garbage: &mut Vec<Shared<D>>,
    ) {
        self.all.retain(|_, source| {
            let before = source.fences.len();
            garbage.extend(source.fences.extract_if(.., |fence| is_done(fence)));
            if source.fences.is_empty() && before > 0 {
                source.done = source.recorded;
            }
            source.is_stream || !source.fences.is_empty()
        });
    }
}

/// The epoch of a source that was waited for.
pub(crate) fn joined_epoch(joined: &Joined, source: u32) -> u64 {
    joined
        .binary_search_by_key(&source, |&(number, _)| number)
        .map_or(0, |place| joined.get(place).map_or(0, |&(_, epoch)| epoch))
}

/// Notes that a source was waited for.
pub(crate) fn join(joined: &mut Joined, source: u32, epoch: u64) {
    match joined.binary_search_by_key(&source, |&(number, _)| number) {
        Ok(place) => joined[place].1 = joined[place].1.max(epoch),
        Err(place) => joined.insert(place, (source, epoch)),
    }
}
