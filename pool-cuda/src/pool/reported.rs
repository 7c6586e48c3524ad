//! The pool's report (feature `report`).

use std::io::{self, Write};

use pool_core::record::{Events, Figures, Inventory, LabelId, Since};
use pool_report::live::Source;

use super::CudaPool;

impl Source for CudaPool {
    fn events(&self, since: &mut Since) -> Events {
        self.events(since)
    }

    fn inventory(&self) -> Inventory {
        self.inventory()
    }

    fn figures(&self) -> Figures {
        self.figures()
    }

    fn label_path(&self, label: LabelId) -> Option<String> {
        self.label_path(label)
    }
}

/// What the pool did and has, as one HTML file to look at: see [`pool_report::live`].
impl CudaPool {
    /// Writes the page of what the pool has and of the events that it still keeps; a
    /// [`Collector`](pool_report::live::Collector) keeps more of them. `out` needs no buffer. It makes no
    /// call of the driver.
    ///
    /// # Errors
    ///
    /// Whatever `out` refuses.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// use pool_cuda::pool_core::record::{Clock, RecordConfig};
    ///
    /// let stream = pool.create_stream()?;
    /// let weights = pool.alloc::<f32>(1 << 20, &stream)?;
    /// pool.start_recording(&RecordConfig::new(Clock::system()))?;
    /// drop(pool.alloc::<f32>(1 << 20, &stream)?);
    ///
    /// let mut page = Vec::new(); // or std::fs::File::create("report.html")?
    /// pool.report("training", &mut page)?;
    /// assert!(page.starts_with(b"<!DOCTYPE html>"));
    /// // What was there before anything was recorded is on it, too.
    /// let mut collector = pool_report::live::Collector::new(&pool);
    /// assert_eq!(collector.history(&pool, "training").live_bytes(), 4 << 20);
    /// # drop(weights);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self, title: &str, out: impl Write) -> io::Result<()> {
        Source::report(self, title, out)
    }
}
