//! Events of the driver's: what fences are made of.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use pool_cuda::pool_core::PoolConfig;

use crate::Result;
use crate::figures::Figure;
use crate::rig::Rig;
use crate::timing::Effort;

pub(super) fn figures(rig: &Rig, effort: Effort) -> Result<Vec<Figure>> {
    let pool = rig.pool(PoolConfig::new())?;
    let (stream, other) = (pool.create_stream()?, pool.create_stream()?);
    let calls = &rig.calls;
    let event = calls.create_event()?;
    let mut figures = vec![
        Figure::ns(
            "cuEventCreate and cuEventDestroy",
            &effort.batches(|| {
                black_box(calls.create_event()?);
                Ok(())
            })?,
        ),
        Figure::ns("cuEventRecord", &effort.batches(|| event.record(&stream))?),
    ];
    let all = effort.batches(|| event.record_all().map(|_| ()));
    if event.record_all()? {
        figures.push(Figure::ns("cuCtxRecordEvent", &all?).remark("all work of the context"));
    }
    event.record(&stream)?;
    event.wait()?;
    figures.extend([
        Figure::ns(
            "cuEventQuery, done",
            &effort.batches(|| {
                black_box(event.is_done()?);
                Ok(())
            })?,
        ),
        Figure::ns("cuStreamWaitEvent, done", &effort.batches(|| event.wait_on(&other))?),
    ]);
    // A long time of work, so that the event is pending while it is measured.
    rig.kernels.spin(&stream, Duration::from_secs(1))?;
    event.record(&stream)?;
    let short = Effort::new(Duration::from_millis(100));
    let pending = [
        Figure::ns(
            "cuEventQuery, pending",
            &short.batches(|| {
                black_box(event.is_done()?);
                Ok(())
            })?,
        ),
        Figure::ns(
            "cuStreamWaitEvent, pending",
            // Few, as what waits fills the stream.
            &Effort::new(Duration::ZERO).samples(10, || {
                let start = Instant::now();
                for _ in 0..10 {
                    event.wait_on(&other)?;
                }
                Ok(start.elapsed())
            })?,
        ),
    ];
    let was_pending = !event.is_done()?;
    figures.extend(pending.map(|figure| {
        figure.remark(if was_pending { "pending to the end" } else { "it was done before the end" })
    }));
    event.wait()?;
    other.synchronize()?;
    figures.extend([
        Figure::ns(
            "cuEventRecord and cuStreamWaitEvent",
            &effort.batches(|| {
                event.record(&stream)?;
                event.wait_on(&other)
            })?,
        ),
        Figure::ns(
            "cuCtxGetCurrent",
            &effort.batches(|| {
                black_box(calls.current_context()?);
                Ok(())
            })?,
        ),
    ]);
    Ok(figures)
}
