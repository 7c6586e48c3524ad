//! The pools of graphs that there are, how often each is used and open, and which streams are announced for
//! it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pool_core::{GraphId, PoolError};

use crate::code::{Code, Result};
use crate::device::DevicePool;
use crate::handle::StreamHandle;

/// What PyTorch calls a pool by.
pub(super) type PoolId = (u64, u64);

/// The graphs of pools have numbers from here on, far from those that programs choose by themselves.
const FIRST_GRAPH: u64 = 1 << 63;

/// What is captured, and is no pool's.
const NO_GRAPH: GraphId = GraphId(u64::MAX);

/// One pool of a device.
#[derive(Debug)]
struct Shared {
    ordinal: u32,
    id: PoolId,
    /// The graphs that share it are one to the device's pool.
    graph: GraphId,
    uses: u64,
    open: u64,
    /// Announced, and not over.
    streams: Vec<Announced>,
}

/// A stream that is captured, or about to be.
#[derive(Clone, Copy, Debug)]
struct Announced {
    handle: StreamHandle,
    /// Its capture was seen.
    begun: bool,
}

/// All of a process. No call is made under the lock.
#[derive(Debug, Default)]
pub(super) struct Pools(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    shared: Vec<Shared>,
    made: u64,
}

impl Table {
    fn find(&mut self, pool: &DevicePool, id: PoolId) -> Option<&mut Shared> {
        let ordinal = pool.device().ordinal();
        self.shared.iter_mut().find(|shared| (shared.ordinal, shared.id) == (ordinal, id))
    }

    fn find_or_make(&mut self, pool: &DevicePool, id: PoolId) -> &mut Shared {
        let ordinal = pool.device().ordinal();
        let is_it = |shared: &Shared| (shared.ordinal, shared.id) == (ordinal, id);
        let place = self.shared.iter().position(is_it).unwrap_or_else(|| {
            let graph = GraphId(FIRST_GRAPH | self.made);
            self.made += 1;
            let streams = Vec::new();
            self.shared.push(Shared { ordinal, id, graph, uses: 0, open: 0, streams });
            self.shared.len() - 1
        });
        &mut self.shared[place]
    }

    /// The graph of a pool that nobody uses any more, which is gone from here on.
    fn take_unused(&mut self, pool: &DevicePool, id: PoolId) -> Option<Shared> {
        let ordinal = pool.device().ordinal();
        let is_it = |shared: &Shared| (shared.ordinal, shared.id) == (ordinal, id);
        let place = self.shared.iter().position(is_it)?;
        let shared = &self.shared[place];
        (shared.uses == 0 && shared.open == 0).then(|| self.shared.swap_remove(place))
    }
}

impl Shared {
    fn has(&self, handle: StreamHandle) -> bool {
        self.streams.iter().any(|stream| stream.handle == handle)
    }
}

/// Says that a capture is over, unless somebody else has.
fn end_capture(pool: &DevicePool, handle: StreamHandle) -> Result<()> {
    match pool.core.end_capture(&handle.stream()) {
        Ok(()) | Err(PoolError::NoCapture) => Ok(()),
        Err(error) => Err(pool.code(error)),
    }
}

/// Does something while a stream is announced that is captured, and whose capture may be nobody's business
/// here: nothing is done that would break it.
pub(super) fn during_capture<R>(
    pool: &DevicePool,
    handle: StreamHandle,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    // A graph of its own, which has no memory, and so need not be released.
    let announced = match pool.core.begin_capture(&handle.stream(), NO_GRAPH) {
        Ok(()) => true,
        Err(PoolError::Captured(_)) => false,
        Err(error) => return Err(pool.code(error)),
    };
    let done = work();
    if announced {
        // It is over in any case: what may fail is to give back what was released meanwhile, which can wait.
        let _ = end_capture(pool, handle);
    }
    done
}

impl Pools {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream is about to be captured into a graph of the pool's.
    pub(super) fn begin(&self, pool: &DevicePool, id: PoolId, handle: StreamHandle) -> Result<()> {
        {
            let mut table = self.table();
            let shared = table.find_or_make(pool, id);
            shared.uses += 1;
            shared.open += 1;
        }
        // A default stream is never captured: another will be, and is announced when it asks for memory.
        if handle.is_default() {
            return Ok(());
        }
        self.announce_now(pool, id, handle).inspect_err(|_| {
            let mut table = self.table();
            if let Some(shared) = table.find(pool, id) {
                shared.uses -= 1;
                shared.open -= 1;
            }
            // Nothing of it was used.
            table.take_unused(pool, id);
        })
    }

    /// A stream asks for memory of a pool that is open. One that is captured is announced, if its capture
    /// was not.
    pub(super) fn announce(
        &self,
        pool: &DevicePool,
        id: PoolId,
        handle: StreamHandle,
    ) -> Result<()> {
        let known = {
            let mut table = self.table();
            let shared = table.find(pool, id).filter(|shared| shared.open > 0);
            shared.ok_or(Code::INVALID_VALUE)?.has(handle)
        };
        if known || !pool.is_captured(handle)? {
            return Ok(());
        }
        self.announce_now(pool, id, handle)
    }

    /// Takes back what was announced for a pool's streams that are not captured: PyTorch opens pools without
    /// captures, too. Whether there was such a stream. If it is captured after all, it is announced when it asks
    /// for memory.
    pub(super) fn withdraw(&self, pool: &DevicePool, id: PoolId) -> Result<bool> {
        let streams = self.table().find(pool, id).map(|shared| shared.streams.clone());
        let mut withdrawn = false;
        for Announced { handle, .. } in streams.unwrap_or_default() {
            if !pool.is_captured(handle)? {
                self.take_back(pool, id, handle)?;
                withdrawn = true;
            }
        }
        Ok(withdrawn)
    }

    /// Takes back what was announced for captures that are over. Where one fails PyTorch says nothing of its
    /// end, and nothing would be waited for any more.
    pub(super) fn end_what_is_over(&self, pool: &DevicePool) -> Result<()> {
        let ordinal = pool.device().ordinal();
        let announced: Vec<(PoolId, Announced)> = {
            let table = self.table();
            let here = table.shared.iter().filter(|shared| shared.ordinal == ordinal);
            here.flat_map(|shared| shared.streams.iter().map(|stream| (shared.id, *stream)))
                .collect()
        };
        for (id, Announced { handle, begun }) in announced {
            // One that cannot say is as it was.
            let Ok(is_captured) = pool.is_captured(handle) else { continue };
            match is_captured {
                false if begun => self.take_back(pool, id, handle)?,
                true if !begun => {
                    let mut table = self.table();
                    let shared = table.find(pool, id);
                    let mut streams = shared.into_iter().flat_map(|shared| &mut shared.streams);
                    if let Some(stream) = streams.find(|stream| stream.handle == handle) {
                        stream.begun = true;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_back(&self, pool: &DevicePool, id: PoolId, handle: StreamHandle) -> Result<()> {
        if let Some(shared) = self.table().find(pool, id) {
            shared.streams.retain(|other| other.handle != handle);
        }
        end_capture(pool, handle)
    }

    fn announce_now(&self, pool: &DevicePool, id: PoolId, handle: StreamHandle) -> Result<()> {
        let graph = self.table().find(pool, id).ok_or(Code::INVALID_VALUE)?.graph;
        match pool.core.begin_capture(&handle.stream(), graph) {
            Ok(()) => {}
            // By whoever ends it, too.
            Err(PoolError::Captured(_)) => return Ok(()),
            Err(error) => return Err(pool.code(error)),
        }
        if let Some(shared) = self.table().find(pool, id) {
            shared.streams.push(Announced { handle, begun: false });
        }
        Ok(())
    }

    /// A capture is over. Where several are under way it is that of the stream.
    pub(super) fn end(&self, pool: &DevicePool, id: PoolId, handle: StreamHandle) -> Result<()> {
        let ended = {
            let mut table = self.table();
            let shared = table.find(pool, id).filter(|shared| shared.open > 0);
            let shared = shared.ok_or(Code::INVALID_VALUE)?;
            shared.open -= 1;
            if shared.open == 0 {
                core::mem::take(&mut shared.streams)
            } else {
                shared.streams.extract_if(.., |other| other.handle == handle).collect()
            }
        };
        let mut result = Ok(());
        for Announced { handle, .. } in ended {
            result = result.and(end_capture(pool, handle));
        }
        self.release_unused(pool, id).and(result)
    }

    /// One use more.
    pub(super) fn hold(&self, pool: &DevicePool, id: PoolId) {
        self.table().find_or_make(pool, id).uses += 1;
    }

    /// One use less.
    pub(super) fn release(&self, pool: &DevicePool, id: PoolId) -> Result<()> {
        {
            let mut table = self.table();
            let shared = table.find(pool, id).filter(|shared| shared.uses > 0);
            shared.ok_or(Code::INVALID_VALUE)?.uses -= 1;
        }
        self.release_unused(pool, id)
    }

    /// Gives back what belongs to a pool that nobody uses. If that fails, one use of it is left.
    fn release_unused(&self, pool: &DevicePool, id: PoolId) -> Result<()> {
        let Some(unused) = self.table().take_unused(pool, id) else { return Ok(()) };
        match pool.core.release_graph(unused.graph) {
            // Nothing was captured into it.
            Ok(()) | Err(PoolError::NoCapture) => Ok(()),
            Err(error) => {
                self.table().shared.push(Shared { uses: 1, ..unused });
                Err(pool.code(error))
            }
        }
    }

    pub(super) fn uses(&self, pool: &DevicePool, id: PoolId) -> u64 {
        self.table().find(pool, id).map_or(0, |shared| shared.uses)
    }
}
