//! Runs what is queued: late, and in any order that streams, fences and graphs allow.

use core::time::Duration;

use super::clock::{Actor, Point};
use super::state::State;
use super::stream::{Callback, Work};
use super::violation::{Access, Owner, Use, Violation};

/// How long an item takes.
const ITEM: Duration = Duration::from_micros(1);

/// What stalled streams do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// They stay where they are.
    Stay,
    /// All but this one do.
    StayBut(Actor),
    /// They run as far as needed.
    Run,
}

/// How far a run came.
pub(super) enum Progress {
    /// Where it was to go, or not further for streams that are held.
    Done,
    /// A callback is to be run, with the lock not held.
    Callback(Actor, Callback),
    /// Another thread runs a callback that comes first.
    Busy,
}

impl State {
    /// Runs what a point needs, and no more, as far as the next callback.
    pub(super) fn run_towards(&mut self, goal: Point, holds: Holds) -> Progress {
        let mut path = vec![goal];
        while let Some(&next) = path.last() {
            let stream = self.stream(next.actor);
            if stream.done >= next.position {
                path.pop();
                continue;
            }
            if stream.busy {
                return Progress::Busy;
            }
            let stays = match holds {
                Holds::Stay => true,
                Holds::StayBut(actor) => actor != next.actor,
                Holds::Run => false,
            };
            if stream.held && stays {
                return Progress::Done;
            }
            if let Some(before) = self.first_wait(next.actor) {
                path.push(before);
            } else if let Some(callback) = self.run_item(next.actor) {
                return Progress::Callback(next.actor, callback);
            }
        }
        Progress::Done
    }

    /// What a stream's first item still waits for.
    fn first_wait(&self, actor: Actor) -> Option<Point> {
        let item = self.stream(actor).queue.front()?;
        item.waits.iter().copied().find(|&point| !self.is_done(point))
    }

    /// The streams that could run an item now.
    pub(super) fn ready(&self) -> impl Iterator<Item = Actor> {
        self.active.iter().copied().filter(|&actor| {
            let stream = self.stream(actor);
            !stream.held && !stream.busy && self.first_wait(actor).is_none()
        })
    }

    /// Runs a stream's first item, which waits for nothing; a callback is given back.
    pub(super) fn run_item(&mut self, actor: Actor) -> Option<Callback> {
        let stream = &mut self.streams[actor as usize];
        let item = stream.queue.pop_front()?;
        if stream.queue.is_empty() {
            self.active.remove(&actor);
        }
        match item.work {
            Work::Callback(callback) => {
                stream.busy = true;
                return Some(callback);
            }
            Work::Task(task) => {
                stream.busy = true;
                return Some(Box::new(move || task()));
            }
            Work::Nothing => {}
            Work::Use(queued) => self.run_use(&queued),
            Work::Copy(copy) => self.run_copy(&copy.0, &copy.1),
        }
        self.finish_item(actor);
        None
    }

    /// A stream's first item is done.
    pub(super) fn finish_item(&mut self, actor: Actor) {
        let stream = &mut self.streams[actor as usize];
        stream.busy = false;
        stream.done += 1;
        self.now = self.now.saturating_add(ITEM);
    }

    fn run_use(&mut self, queued: &Use) {
        let (Some(range), Some(owner)) = (self.ranges.get_mut(&queued.range), queued.owner) else {
            return;
        };
        if queued.access == Access::Write {
            range.marks.set(queued.bytes.clone(), owner);
        } else if let Some((bytes, found)) = range.wrong_mark(&queued.bytes, owner) {
            self.violate(Violation::Contents { read: queued.clone(), bytes, found });
        }
    }

    fn run_copy(&mut self, from: &Use, to: &Use) {
        let Some(source) = self.ranges.get(&from.range) else { return };
        let marks: Vec<(_, Owner)> = source
            .marks
            .overlapping(from.bytes.clone())
            .map(|(bytes, &owner)| {
                let start = to.bytes.start + (bytes.start - from.bytes.start);
                (start..start + (bytes.end - bytes.start), owner)
            })
            .collect();
        let Some(target) = self.ranges.get_mut(&to.range) else { return };
        target.marks.take(to.bytes.clone());
        for (bytes, owner) in marks {
            target.marks.put(bytes, owner);
        }
    }
}
