//! What happens off the way of a hit reaches subscribers of `tracing`; hits do not.

use core::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use pool_core::device::Call;
use pool_core::{Pool, PoolConfig};
use pool_mock::device::{SimConfig, SimDevice};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps what it is told, and by whom.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pool_core")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        self.0.lock().unwrap().push((*event.metadata().level(), text));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

#[test]
fn growth_trims_and_failures_are_events_and_hits_are_none() {
    let kept = Kept::default();
    let texts = || core::mem::take(&mut *kept.0.lock().unwrap());
    tracing::subscriber::with_default(kept.clone(), || {
        let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new()).unwrap();
        let stream = pool.create_stream().unwrap();
        pool.free_on(stream, pool.allocate_on(stream, 4096).unwrap().handle()).unwrap();
        let [(level, text)] = &texts()[..] else { panic!("one growth") };
        assert_eq!(*level, Level::DEBUG);
        assert!(text.contains("the pool grew") && text.contains("size_bytes=67108864"), "{text}");

        pool.free_on(stream, pool.allocate_on(stream, 4096).unwrap().handle()).unwrap();
        assert_eq!(texts(), [], "a hit");

        pool.trim(0).unwrap();
        let [(_, text)] = &texts()[..] else { panic!("one arena") };
        assert!(text.contains("went back to the device"), "{text}");

        pool.device().fail_each(Call::Allocate);
        pool.allocate_on(stream, 128 << 20).unwrap_err();
        let warnings = texts().into_iter().filter(|(level, _)| *level == Level::WARN);
        let warnings: Vec<String> = warnings.map(|(_, text)| text).collect();
        let [failed @ .., refused] = &warnings[..] else { panic!("nothing went wrong") };
        assert!(
            !failed.is_empty()
                && failed.iter().all(|text| text.contains("a call of the device failed"))
        );
        assert!(
            refused.contains("refused") && refused.contains("size_bytes=134217728"),
            "{refused}"
        );
    });
}
