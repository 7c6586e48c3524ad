//! Streams that are put in order, by the program or by the pool for it.

use pool_core::PoolError;

use super::act::Named;
use super::finding::Fault;
use super::run::Run;
use super::world::{Ready, Stream};

impl Run {
    /// The program has one stream wait for another.
    pub(super) fn wait(&self, before: u8, after: u8) {
        let mut world = self.world();
        let number = |stream: &Stream| stream.number;
        let first = world.pick_stream(before, |_| true).map(number);
        let second = world.pick_stream(after, |_| true).map(number);
        if let (Some(first), Some(second)) = (first, second) {
            world.order(&self.device, first, second);
        }
    }

    /// Has one stream wait for another, or the host for one; false if that was refused.
    pub(super) fn order(&self, after: Option<Named>, on: Option<Named>) -> Result<bool, Fault> {
        let injected = self.device.injected();
        let ordered = self.call(after, |after| self.call(on, |on| self.pool.order(after, on)));
        match ordered {
            Ok(()) => Ok(true),
            // Two captures, or one, have no order with what is outside.
            Err(PoolError::Captured(_)) if self.world().is_capturing() => Ok(false),
            Err(error) => {
                let there = [after, on].into_iter().all(|named| self.is_there(named));
                let gone = matches!(error, PoolError::UnknownStream(_)) && !there;
                self.judge("order", injected, &error, gone).map(|()| false)
            }
        }
    }

    /// Uses a block on a stream that nothing but the pool put behind the block's own.
    pub(super) fn use_in_order(
        &self,
        block: u8,
        on: u8,
        by_handle: bool,
        write: bool,
    ) -> Result<(), Fault> {
        let (mut held, named) = {
            let mut world = self.world();
            let Some(held) = world.take_block(block) else { return Ok(()) };
            let home = held.ready.first().and_then(|ready| {
                let stream = world.stream(ready.stream).filter(|stream| !stream.leaving)?;
                Some((*ready, Named::of(stream, by_handle)))
            });
            let other = world.pick_stream(on, |_| true).map(|other| Named::of(other, by_handle));
            (held, home.zip(other))
        };
        let used = match named {
            Some(((ready, home), other)) => match self.order(Some(home), Some(other)) {
                Ok(true) => {
                    let is_new = held.ready.iter().all(|known| known.stream != other.number);
                    // What is ordered in a capture is so in its graph alone.
                    if is_new && (held.is_of_a_graph() || !self.is_captured(other)) {
                        held.ready.push(Ready { stream: other.number, ..ready });
                    }
                    self.use_block(&mut held, other.number, write)
                }
                refused => refused.map(drop),
            },
            None => Ok(()),
        };
        self.world().put_back(held);
        used
    }

    fn is_captured(&self, named: Named) -> bool {
        self.world().stream(named.number).is_some_and(|stream| stream.capture.is_some())
    }
}
