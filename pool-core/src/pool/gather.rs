//! Memory that goes from spaces into the hub, and from there to whoever waits for it.

use alloc::vec::Vec;

use super::books::{Books, Holder};
use super::help::Plea;
use super::inner::{Failed, Inner};
use super::notice::Notice;
use crate::device::Device;
use crate::range::{Options, Stretch};
use crate::threads::{HUB, Owner, Threads};

/// What is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// All that is free.
    All,
    /// All but what is kept apart for lifetimes; of that, idle arenas.
    Usual,
    /// What streams left that are gone. Lifetimes that took each other's idle arenas would go on
    /// with that for ever.
    Nobodys,
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Takes a free stretch of one other space that serves the request, by way of the hub.
    pub(super) fn steal(&self, plea: &mut Plea<'_, D>) -> bool {
        for victim in self.victims(plea) {
            let longest_bytes = self.shared.use_of(victim).longest_run_bytes;
            let moved = self.portions(plea, longest_bytes, false).into_iter().any(
                |(size_bytes, align_bytes)| {
                    self.with_books(|books| {
                        let taken = self.shared.take_stretch(
                            victim,
                            size_bytes,
                            align_bytes,
                            Options::empty(),
                        );
                        taken.is_some_and(|stretch| self.give_to_hub(books, victim, stretch))
                    })
                },
            );
            if moved && self.take_from_hub(plea, true) {
                self.counters.steals.add_shared(1);
                self.notice(Notice::Stolen {
                    size_bytes: plea.request.size_bytes,
                    stream: plea.asker.number(),
                });
                return true;
            }
        }
        false
    }

    /// The spaces with the longest free runs, the longest first; those that wait for nothing before
    /// all others. Those of lifetimes are left alone.
    fn victims(&self, plea: &Plea<'_, D>) -> Vec<Owner> {
        let mut victims: Vec<(bool, u64, Owner)> = self.with_books(|books| {
            let others = books.gatherable();
            let others = others.filter(|&space| space != plea.space && !books.is_apart(space));
            others
                .filter_map(|space| {
                    let waits = books.source_of(space).is_some();
                    let longest = self.shared.use_of(space).longest_run_bytes;
                    (longest >= plea.request.size_bytes).then_some((waits, longest, space))
                })
                .collect()
        });
        victims.sort_by_key(|&(waits, longest, _)| (waits, core::cmp::Reverse(longest)));
        victims.into_iter().map(|(_, _, space)| space).collect()
    }

    /// Gives a stretch that was taken out of a space to the hub, where it waits for what the
    /// space's memory waits for. False if the host has no room for it: the space has it again.
    pub(super) fn give_to_hub(&self, books: &mut Books<D>, from: Owner, stretch: Stretch) -> bool {
        if !self.shared.give(HUB, stretch) {
            // Its node is spare there.
            let returned = self.shared.give(from, stretch);
            debug_assert!(returned, "a stretch is nobody's");
            return false;
        }
        if let Some(source) = books.source_of(from) {
            books.stain(stretch, source);
        }
        true
    }

    /// Puts the free memory of all spaces together in the hub, and takes from there. False if there
    /// was none but the asker's.
    pub(super) fn gather(&self, plea: &mut Plea<'_, D>) -> bool {
        let waits = plea.asker.waits().is_some();
        // One that cannot wait gets what the host has seen done: then parcels are better waited for
        // one by one than each behind its space's stream.
        let what = if plea.mixes {
            Gathered::All
        } else if self.keeps_apart(plea) {
            Gathered::Nobodys
        } else {
            Gathered::Usual
        };
        let called_back = self.call_back();
        if !(self.gather_all(&mut plea.failure, waits, what) || called_back) {
            return false;
        }
        if !(self.is_capturing() || waits && plea.tight) {
            self.fence_hub(&mut plea.failure);
            self.poll(&mut plea.failure);
        }
        true
    }

    /// Puts the free memory of all spaces together in the hub; if `collect`, that of their parcels
    /// too, for which their streams wait. False if nothing was moved.
    pub(super) fn gather_all(
        &self,
        failure: &mut Option<Failed<D>>,
        collect: bool,
        what: Gathered,
    ) -> bool {
        self.close(|_| true, failure);
        if collect {
            for (number, space) in self.spaces_with_parcels() {
                self.collect(number, space, failure);
            }
        }
        let now = self.now();
        self.with_books(|books| {
            let mut moved = self.merge_parcels_of_nobody(books, collect, now);
            let spaces: Vec<Owner> = books.gatherable().collect();
            for space in spaces {
                if books.keeps_addresses(space) {
                    // All that is free there is together.
                    continue;
                }
                let is_apart = books.is_apart(space);
                let is_nobodys = matches!(books.holder(space), Holder::Gone(_));
                moved |= match what {
                    Gathered::Usual if is_apart => self.give_idle_to_hub(books, space),
                    Gathered::Nobodys if !is_nobodys => false,
                    _ => self.empty_into_hub(books, space),
                };
            }
            self.withhold(books);
            moved
        })
    }

    /// Moves the free runs of a space into the hub. False if it has none.
    pub(super) fn empty_into_hub(&self, books: &mut Books<D>, space: Owner) -> bool {
        let mut stretches = Vec::new();
        self.shared.take_all(space, &mut stretches);
        let mut moved = false;
        for stretch in stretches {
            moved |= self.give_to_hub(books, space, stretch);
        }
        moved
    }

    /// The streams whose spaces' blocks wait in closed parcels, and do not rest.
    fn spaces_with_parcels(&self) -> Vec<(u32, Owner)> {
        self.with_books(|books| {
            let mut spaces: Vec<(u32, Owner)> = Vec::new();
            for parcel in books.closed.iter().filter(|parcel| !parcel.rests) {
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
    pub(super) fn gatherable(&self) -> impl Iterator<Item = Owner> + '_ {
        self.spaces.iter().enumerate().filter_map(|(place, holder)| match holder {
            Holder::Clean | Holder::Stream(_) | Holder::Gone(_) => Some(Owner(place as u32)),
            Holder::Nobody | Holder::Graph | Holder::Vacated => None,
        })
    }
}
