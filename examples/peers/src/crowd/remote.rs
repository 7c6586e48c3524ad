//! Threads that free what others allocated.

use core::hint::black_box;

use crossbeam_utils::Backoff;
use pool_core::Handle;
use pool_mock::replay::Placer;
use rtrb::{Consumer, Producer, RingBuffer, chunks::ReadChunkIntoIter};

use super::{
    Crowd, Job, Pass, Private, Room,
    own::{GRANULES_EACH, MOST_GRANULES},
    together,
};
use crate::churn::Churn;

/// Handles that go through the queue at once. To pass one costs two transfers of a line between
/// cores, some 100 ns; an allocation that a cache serves takes 5. Handed over one by one, all
/// allocators would be as fast as the queue. A batch is gathered before it is written to the
/// queue, and copied out before its blocks are freed: an allocator's atomic steps would wait for
/// the queue's lines to arrive, each for some, where all of a batch's can arrive at once.
const BATCH: usize = 32;

/// Blocks that a thread has live at once, or on their way to it: a queue full of them, and a batch
/// at either end.
const MOST_LIVE: u32 = 34 * 32;

/// Handles that a queue holds: enough work for a pair that has but one core to be worth the switch
/// from one thread to the other.
const QUEUED: usize = 32 * BATCH;

/// Handles in a round.
const HANDLES: u32 = 1 << 15;

/// Pairs of threads: one allocates blocks of 256 bytes to 16 KiB, log-uniform, the other frees
/// them. Handles pass through a queue, in batches, so that its cost does not drown theirs.
///
/// Of an odd number of threads, one does nothing.
///
/// ```
/// use peers::crowd::{Contestant, RemoteFrees};
///
/// let outcome = Contestant::Caches.pass(&RemoteFrees::new(2), 2, 1)?;
/// assert_eq!(outcome.pass.refused, 0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RemoteFrees {
    /// What each pair's sizes are.
    sizes: Vec<Vec<u32>>,
}

/// A thread's end of its pair's queue. A refused request passes as `None`.
enum End<T> {
    Front(Producer<Option<T>>),
    Back(Consumer<Option<T>>),
}

impl RemoteFrees {
    /// Pairs of up to so many threads.
    #[must_use]
    pub fn new(threads: u32) -> Self {
        let sizes = |pair| Churn::up_to(MOST_GRANULES, HANDLES, 0, 0, u64::from(pair) + 1).first;
        Self { sizes: (0..threads / 2).map(sizes).collect() }
    }

    /// A queue for each pair, an end of it and the pair's sizes for each thread.
    fn parts<T: Send>(&self, threads: u32) -> impl Iterator<Item = (u32, &[u32], End<T>)> {
        (0..threads / 2).zip(&self.sizes).flat_map(|(pair, sizes)| {
            let (front, back) = RingBuffer::new(QUEUED);
            let sizes = sizes.as_slice();
            [(2 * pair, sizes, End::Front(front)), (2 * pair + 1, sizes, End::Back(back))]
        })
    }
}

impl Job for RemoteFrees {
    fn room(&self, threads: u32) -> Room {
        Room { threads, granules_each: GRANULES_EACH, blocks_each: MOST_LIVE, owners: false }
    }

    fn pass<C: Crowd>(&self, crowd: &C, threads: u32, rounds: u32) -> Pass {
        together(self.parts::<C::Block>(threads), |(thread, sizes, end), line| {
            let mut hand = crowd.hand(thread);
            let mut batch = Vec::with_capacity(BATCH);
            let operations = sizes.len() as u64 * u64::from(rounds);
            match end {
                End::Front(mut front) => line.lap(operations, || {
                    let mut refused = 0;
                    for sizes in batches(sizes, rounds) {
                        batch.extend(sizes.iter().map(|granules| hand.place((*granules).into())));
                        refused += batch.iter().filter(|block| block.is_none()).count() as u64;
                        send(&mut front, batch.drain(..));
                    }
                    refused
                }),
                // What was refused is counted by the thread that asked.
                End::Back(mut back) => line.lap(operations, || {
                    for _ in batches(sizes, rounds) {
                        receive(&mut back, |blocks| batch.extend(blocks));
                        batch.drain(..).flatten().for_each(|block| hand.release(block));
                    }
                    0
                }),
            }
        })
    }

    fn pass_in_private(&self, private: &Private, threads: u32, rounds: u32) -> Pass {
        together(self.parts::<Handle>(threads), |(thread, sizes, end), line| {
            let mut hand = private.hand(thread);
            let (mut own, mut batch) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
            let operations = sizes.len() as u64 * u64::from(rounds);
            match end {
                End::Front(mut front) => line.lap(operations, || {
                    let mut refused = 0;
                    for sizes in batches(sizes, rounds) {
                        refused += exchange(&mut hand, sizes, &mut own);
                        batch.extend(own.iter().flat_map(|handle| [*handle; 2]));
                        send(&mut front, batch.drain(..));
                    }
                    refused
                }),
                End::Back(mut back) => line.lap(operations, || {
                    let mut refused = 0;
                    for sizes in batches(sizes, rounds) {
                        receive(&mut back, |handles| batch.extend(handles));
                        batch.drain(..).flatten().for_each(|handle| {
                            black_box(handle);
                        });
                        refused += exchange(&mut hand, sizes, &mut own);
                    }
                    refused
                }),
            }
        })
    }
}

/// The sizes in batches, so many times over.
fn batches(sizes: &[u32], rounds: u32) -> impl Iterator<Item = &[u32]> {
    (0..rounds).flat_map(|_| sizes.chunks_exact(BATCH))
}

/// Allocates blocks of every other size of a batch, then frees them in the same order. Returns how
/// many requests were refused, and leaves the handles.
fn exchange<P: Placer<Block = Handle>>(
    hand: &mut P,
    sizes: &[u32],
    blocks: &mut Vec<Option<Handle>>,
) -> u64 {
    blocks.clear();
    blocks.extend(sizes.iter().step_by(2).map(|granules| hand.place(u64::from(*granules))));
    let mut refused = 0;
    for block in &*blocks {
        match block {
            Some(block) => hand.release(*block),
            None => refused += 1,
        }
    }
    refused
}

/// Waits for room for a batch, then fills it.
fn send<T>(front: &mut Producer<Option<T>>, batch: impl Iterator<Item = Option<T>>) {
    let backoff = Backoff::new();
    loop {
        if let Ok(room) = front.write_chunk_uninit(BATCH) {
            room.fill_from_iter(batch);
            return;
        }
        backoff.snooze();
    }
}

/// Waits for a batch, then takes it out.
fn receive<T>(back: &mut Consumer<Option<T>>, take: impl FnOnce(ReadChunkIntoIter<'_, Option<T>>)) {
    let backoff = Backoff::new();
    loop {
        if let Ok(batch) = back.read_chunk(BATCH) {
            take(batch.into_iter());
            return;
        }
        backoff.snooze();
    }
}
