//! Whom the blocks of a replay are for.

use pool_mock::{
    Trace,
    log::Action,
    replay::{Deed, Program, Sight},
};
use pool_report::{Event, History, Kind, LabelId, StreamId};

/// Whom each block of a program is for, and which requests failed when it was recorded.
pub(super) struct Cast {
    /// Of each request: stream and label.
    requests: Vec<(StreamId, LabelId)>,
    /// Before which call, and what was asked on which stream; the last first.
    failures: Vec<(usize, u64, StreamId)>,
}

impl Cast {
    /// Of a program, whose trace is there unless it was generated.
    pub(super) fn new(program: &Program, trace: Option<&Trace>, history: &mut History) -> Self {
        let mut name = |stream: u32| {
            let handle = trace.and_then(|trace| trace.streams().get(stream as usize));
            history.stream(&match handle {
                Some(0) => "default stream".to_owned(),
                Some(handle) => format!("stream {stream} (0x{handle:x})"),
                None => format!("stream {stream}"),
            })
        };
        let streams: Vec<_> = (0..program.streams()).map(&mut name).collect();
        let requests = program.calls().iter().filter_map(|call| match call.deed {
            Deed::Allocate { stream, .. } => Some((streams[stream as usize], LabelId::default())),
            _ => None,
        });
        let mut cast = Self { requests: requests.collect(), failures: Vec::new() };
        let mut calls = 0;
        for operation in trace.iter().flat_map(|trace| &trace.operations) {
            match operation.action {
                Action::Allocate { .. } | Action::Free { .. } => calls += 1,
                Action::Failure { size_bytes } => {
                    let stream = streams.get(operation.stream.0 as usize).copied();
                    cast.failures.push((calls, size_bytes, stream.unwrap_or_default()));
                }
                Action::UnknownFree => {}
            }
        }
        cast.failures.reverse();
        cast
    }

    fn of(&self, request: u32) -> (StreamId, LabelId) {
        self.requests.get(request as usize).copied().unwrap_or_default()
    }

    /// Adds what was seen; a block that is given back is so in the way that is said.
    pub(super) fn tell(&self, time: u64, sight: Sight, free: Kind, history: &mut History) {
        let (request, event) = match sight {
            Sight::Allocated { request, offset_bytes, size_bytes } => {
                (request, Event::new(time, Kind::Allocate).at(offset_bytes, size_bytes))
            }
            Sight::Freed { request, offset_bytes } => {
                (request, Event::new(time, free).at(offset_bytes, 0))
            }
            Sight::Refused { request, size_bytes } => {
                (request, Event::new(time, Kind::Failure).at(0, size_bytes))
            }
            Sight::Other => return,
        };
        let (stream, label) = self.of(request);
        history.push(event.on(stream).under(label));
    }

    /// Adds what the recorded program was refused before a call.
    pub(super) fn tell_failures(&mut self, call: usize, history: &mut History) {
        while let Some((_, bytes, stream)) = self.failures.pop_if(|failure| failure.0 <= call) {
            history.push(Event::new(call as u64, Kind::Failure).at(0, bytes).on(stream));
        }
    }
}
