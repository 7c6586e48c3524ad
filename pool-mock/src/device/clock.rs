//! Vector clocks: what work a stream, a fence or the host knows to be done before it.
//!
//! An actor is a stream or a chain of a graph; its items have positions 1, 2, 3... A clock says
//! for each actor up to which position its work is done before. What the host knows is known to
//! everything that is submitted later, so the other clocks leave it out and stay short.

/// An actor: a place in the list of streams.
pub(super) type Actor = u32;

/// An item of an actor: all work up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) actor: Actor,
    pub(super) position: u64,
}

/// What the host knows.
#[derive(Debug, Default)]
pub(super) struct HostClock(Vec<u64>);

impl HostClock {
    /// Whether the host has seen this done.
    pub(super) fn knows(&self, point: Point) -> bool {
        self.0.get(point.actor as usize).is_some_and(|&position| point.position <= position)
    }

    /// The host has seen this done.
    pub(super) fn see(&mut self, point: Point) {
        let place = point.actor as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        self.0[place] = self.0[place].max(point.position);
    }

    /// And all that is before something it has seen done.
    pub(super) fn see_all(&mut self, clock: &Clock) {
        for &(actor, position) in &clock.0 {
            self.see(Point { actor, position });
        }
    }
}

/// What is before an item, beyond its own actor's and what the host knew.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Vec<(Actor, u64)>);

impl Clock {
    /// Whether this is before.
    pub(super) fn knows(&self, point: Point) -> bool {
        self.position(point.actor) >= point.position
    }

    /// This is before, too.
    pub(super) fn add(&mut self, point: Point) {
        match self.0.binary_search_by_key(&point.actor, |&(actor, _)| actor) {
            Ok(place) => self.0[place].1 = self.0[place].1.max(point.position),
            Err(place) => self.0.insert(place, (point.actor, point.position)),
        }
    }

    /// All that is before `other` is before, too.
    pub(super) fn join(&mut self, other: &Self, host: &HostClock) {
        let known = |&(actor, position): &(Actor, u64)| host.knows(Point { actor, position });
        if other.0.iter().all(|&(actor, position)| self.position(actor) >= position) {
            return;
        }
        self.0.retain(|entry| !known(entry));
        for &(actor, position) in other.0.iter().filter(|entry| !known(entry)) {
            self.add(Point { actor, position });
        }
    }

    fn position(&self, actor: Actor) -> u64 {
        self.0.binary_search_by_key(&actor, |&(actor, _)| actor).map_or(0, |place| self.0[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn point(actor: Actor, position: u64) -> Point {
        Point { actor, position }
    }

    #[test]
    fn a_clock_knows_what_it_was_told_and_what_those_know() {
        let host = HostClock::default();
        let (mut first, mut second) = (Clock::default(), Clock::default());
        first.add(point(3, 5));
        second.add(point(1, 2));
        second.join(&first, &host);
        assert!(second.knows(point(3, 5)) && second.knows(point(3, 4)));
        assert!(!second.knows(point(3, 6)));
        assert!(second.knows(point(1, 2)) && !second.knows(point(2, 1)));
        assert!(!first.knows(point(1, 2)));
    }

    #[test]
    fn what_the_host_knows_is_left_out_of_other_clocks() {
        let mut host = HostClock::default();
        host.see(point(3, 5));
        let (mut first, mut second) = (Clock::default(), Clock::default());
        first.add(point(3, 5));
        first.add(point(4, 1));
        second.join(&first, &host);
        assert!(!second.knows(point(3, 5)) && second.knows(point(4, 1)));
        assert!(host.knows(point(3, 5)) && !host.knows(point(3, 6)) && !host.knows(point(9, 1)));
    }
}
