//! Memory that moves between streams: taken, fenced, waited for, and only then given.

use alloc::vec::Vec;

use super::asker::Asker;
use super::books::{Books, Holder};
use super::fence::Shared;
use super::help::Plea;
use super::inner::{Failed, Inner};
use super::sabotage::{FENCES_LATE, STEALS_UNFENCED};
use crate::device::Device;
use crate::range::Stretch;
use crate::threads::{HUB, Owner, Threads};

/// What the free memory of a space waits for.
enum Behind<D: Device> {
    Nothing,
    Stream(u32),
    Fences(Vec<Shared<D>>),
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Has the asker's stream wait for the hub's fences. False if there are none, or it cannot.
    pub(super) fn join_hub(&self, plea: &mut Plea<'_, D>) -> bool {
        let number = plea.asker.number();
        let (fences, serial) = self.with_books(|books| {
            let unjoined = books.unjoined(number, plea.joined);
            let fences: Vec<Shared<D>> = unjoined.map(|place| place.fence.clone()).collect();
            (fences, books.hub_serial)
        });
        if fences.is_empty() {
            return false;
        }
        let waited = match plea.asker {
            Asker::Known { number, .. } => self.wait_in(*number, &fences),
            Asker::Raw { handle } => {
                fences.iter().try_for_each(|fence| self.wait(handle, fence)).map(|()| true)
            }
            Asker::Nobody | Asker::Captured { .. } => Ok(false),
        };
        if plea.note(waited) != Some(true) {
            return false;
        }
        plea.joined = serial;
        if let Some(number) = number {
            self.with_books(|books| {
                if let Some(known) = books.streams.get_mut(&number) {
                    known.joined = known.joined.max(serial);
                }
            });
        }
        true
    }

    /// Takes a free stretch of one other space that serves the request, has the asker's stream
    /// wait for it, and gives it to the asker's space.
    pub(super) fn steal(&self, plea: &mut Plea<'_, D>) -> bool {
        let Asker::Known { number, space: Some(space), .. } = *plea.asker else { return false };
        for victim in self.victims(plea) {
            let longest_bytes = self.shared.use_of(victim).longest_run_bytes;
            let portions = self.portions(plea, longest_bytes, false);
            let taken = portions.into_iter().find_map(|(size_bytes, align_bytes)| {
                self.take_stretch(victim, size_bytes, align_bytes)
            });
            let Some(stretch) = taken else { continue };
            if FENCES_LATE {
                self.publish(space, victim, stretch);
            }
            let ordered = match self.behind(victim) {
                Behind::Nothing => Ok(true),
                Behind::Fences(fences) => self.wait_in(number, &fences),
                Behind::Stream(_) if STEALS_UNFENCED => Ok(true),
                Behind::Stream(other) => self.order(other, number),
            };
            let ordered = plea.note(ordered) == Some(true);
            if !FENCES_LATE {
                self.publish(if ordered { space } else { victim }, victim, stretch);
            }
            if ordered {
                self.counters.steals.add_shared(1);
                return true;
            }
        }
        false
    }

    /// Has one stream wait for all work of another so far.
    fn order(&self, before: u32, after: u32) -> Result<bool, Failed<D>> {
        match self.record_in(before)? {
            Some(fence) => self.wait_in(after, &[fence]),
            None => Ok(false),
        }
    }

    /// The spaces with the longest free runs, the longest first; those that wait for nothing
    /// before all others.
    fn victims(&self, plea: &Plea<'_, D>) -> Vec<Owner> {
        let mut victims: Vec<(bool, u64, Owner)> = self.with_books(|books| {
            let places = books.spaces.iter().enumerate();
            let others = places.filter(|&(place, _)| place as u32 != plea.space.0);
            others
                .filter_map(|(place, holder)| {
                    let waits = match holder {
                        Holder::Nobody | Holder::Graph => return None,
                        Holder::Clean => false,
                        Holder::Stream(_) => true,
                        Holder::Gone(fences) => !fences.is_empty(),
                    };
                    let longest = self.shared.use_of(Owner(place as u32)).longest_run_bytes;
                    (longest >= plea.request.size_bytes).then_some((
                        waits,
                        longest,
                        Owner(place as u32),
                    ))
                })
                .collect()
        });
        victims.sort_by_key(|&(waits, longest, _)| (waits, core::cmp::Reverse(longest)));
        victims.into_iter().map(|(_, _, space)| space).collect()
    }

    /// What the free memory of a space waits for, which is in nobody's hands.
    fn behind(&self, space: Owner) -> Behind<D> {
        self.with_books(|books| match books.holder(space) {
            Holder::Stream(number) => Behind::Stream(*number),
            Holder::Gone(fences) => Behind::Fences(fences.clone()),
            Holder::Clean | Holder::Nobody | Holder::Graph => Behind::Nothing,
        })
    }

    /// Takes a stretch that serves a request out of a space. It is in this thread's hands then.
    fn take_stretch(&self, space: Owner, size_bytes: u64, align_bytes: u64) -> Option<Stretch> {
        self.with_books(|books| {
            let stretch = self.shared.take_stretch(space, size_bytes, align_bytes)?;
            books.in_transit_bytes += self.shared.shape().bytes(stretch.len);
            Some(stretch)
        })
    }

    /// Gives a stretch out of this thread's hands to a space; to the one that it came from if the
    /// host has no room for more.
    fn publish(&self, space: Owner, from: Owner, stretch: Stretch) {
        self.with_books(|books| {
            books.in_transit_bytes -= self.shared.shape().bytes(stretch.len);
            self.give_or_return(space, from, stretch);
        });
    }

    /// Gives a stretch to a space, or back to where its node is spare.
    fn give_or_return(&self, space: Owner, from: Owner, stretch: Stretch) -> bool {
        let given = self.shared.give(space, stretch);
        if !given {
            let returned = self.shared.give(from, stretch);
            debug_assert!(returned, "a stretch is nobody's");
        }
        given
    }

    /// Puts the free memory of all spaces together in the hub, behind fences of their streams, and
    /// has the asker wait for those that are not done. False if there is none but the asker's.
    pub(super) fn gather(&self, plea: &mut Plea<'_, D>) -> bool {
        if matches!(plea.asker, Asker::Captured { .. }) {
            return false;
        }
        if !self.gather_all(&mut plea.failure) {
            return false;
        }
        if !self.is_capturing() {
            self.poll(&mut plea.failure);
        }
        if plea.asker.waits().is_some() {
            self.join_hub(plea);
        }
        self.take_common(plea);
        true
    }

    /// Puts the free memory of all spaces together in the hub, behind fences of their streams.
    /// Streams wait for their own spaces' parcels first. False if nothing was moved.
    pub(super) fn gather_all(&self, failure: &mut Option<Failed<D>>) -> bool {
        self.close(|_| true, failure);
        for (number, space) in self.spaces_with_parcels() {
            self.collect(number, space, failure);
        }
        let mut stretches: Vec<(Owner, Stretch)> = Vec::new();
        let spaces = self.with_books(|books| {
            self.merge_parcels_of_nobody(books);
            let spaces: Vec<Owner> = books.gatherable().collect();
            for &space in &spaces {
                self.shared.take_all(space, &mut stretches);
            }
            books.in_transit_bytes += self.bytes_of(&stretches);
            spaces
        });
        let mut moved = false;
        for space in spaces {
            let of_space: Vec<Stretch> =
                stretches.iter().filter(|(from, _)| *from == space).map(|&(_, at)| at).collect();
            if of_space.is_empty() {
                continue;
            }
            // Taken first: what the stream's work used before is before the fence.
            let behind = self.behind(space);
            let (fences, by) = match behind {
                Behind::Nothing => (Some(Vec::new()), None),
                Behind::Fences(fences) => (Some(fences), None),
                Behind::Stream(number) => match self.record_in(number) {
                    Ok(fence) => (fence.map(|fence| alloc::vec![fence]), Some(number)),
                    Err(failed) => {
                        *failure = Some(failed);
                        (None, None)
                    }
                },
            };
            self.with_books(|books| {
                for &stretch in &of_space {
                    books.in_transit_bytes -= self.shared.shape().bytes(stretch.len);
                    let to = if fences.is_some() { HUB } else { space };
                    moved |= self.give_or_return(to, space, stretch) && fences.is_some();
                }
                for fence in fences.into_iter().flatten() {
                    books.add_hub_fence(fence, by);
                }
            });
        }
        moved
    }

    fn bytes_of(&self, stretches: &[(Owner, Stretch)]) -> u64 {
        stretches.iter().map(|(_, stretch)| self.shared.shape().bytes(stretch.len)).sum()
    }

    /// The streams whose spaces' blocks wait in closed parcels.
    fn spaces_with_parcels(&self) -> Vec<(u32, Owner)> {
        self.with_books(|books| {
            let mut spaces: Vec<(u32, Owner)> = Vec::new();
            for parcel in &books.closed {
                if let Some(number) = books.stream_of(parcel.home)
                    && !spaces.contains(&(number, parcel.home))
                {
                    spaces.push((number, parcel.home));
                }
            }
            spaces
        })
    }
}

impl<D: Device> Books<D> {
    /// The spaces whose memory can be put together: all but graphs'.
    fn gatherable(&self) -> impl Iterator<Item = Owner> + '_ {
        self.spaces.iter().enumerate().filter_map(|(place, holder)| match holder {
            Holder::Clean | Holder::Stream(_) | Holder::Gone(_) => Some(Owner(place as u32)),
            Holder::Nobody | Holder::Graph => None,
        })
    }
}
