//! Graphs that tests capture.

use pool_core::GraphId;
use pool_cuda::{CudaPool, PoolStream};

use crate::raw::{self, CaptureMode, Raw};

/// A captured graph, ready to be launched.
pub(crate) struct Graph {
    pool: CudaPool,
    id: GraphId,
    definition: Raw,
    executable: Raw,
}

/// Captures what a closure queues on a stream.
pub(crate) fn capture(
    pool: &CudaPool,
    stream: &PoolStream,
    id: u64,
    mode: CaptureMode,
    work: impl FnOnce(),
) -> Graph {
    let id = GraphId(id);
    pool.begin_capture(stream, id).unwrap();
    raw::begin_capture(pool.device(), stream, mode);
    work();
    let definition = raw::end_capture(pool.device(), stream).unwrap();
    pool.end_capture(stream).unwrap();
    let executable = raw::instantiate(pool.device(), definition);
    Graph { pool: pool.clone(), id, definition, executable }
}

impl Graph {
    pub(crate) fn launch(&self, stream: &PoolStream) {
        raw::launch(self.pool.device(), self.executable, stream);
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // The pool takes the memory back behind what was launched.
        self.pool.release_graph(self.id).unwrap();
        raw::destroy(self.pool.device(), self.definition, self.executable);
    }
}
