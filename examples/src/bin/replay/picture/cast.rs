//! Whom the blocks of a replay are for.

use pool_mock::{
    Trace,
    log::Action,
    replay::{Deed, Program, Sight},
};
use pool_report::{Event, History, Kind, LabelId, StreamId};

/// Whom each block of a program is for, and which requests failed when it was recorded.
pub(super) struct Cast {
    /// Of each request.
    requests: Vec<Owner>,
    /// Before which call, and what was asked for whom; the last first.
    failures: Vec<(usize, u64, Owner)>,
}

/// Whom a block is for.
#[derive(Clone, Copy, Default)]
struct Owner {
    stream: StreamId,
    label: LabelId,
}

impl Cast {
    /// Of a program, whose trace is there unless it was generated. It may be several copies of it, in
    /// lockstep.
    pub(super) fn new(program: &Program, trace: Option<&Trace>, history: &mut History) -> Self {
        let streams: Vec<_> = (0..program.streams())
            .map(|stream| history.stream(&stream_name(stream, trace)))
            .collect();
        let mut requests: Vec<Owner> = Vec::new();
        for call in program.calls() {
            if let Deed::Allocate { stream, .. } = call.deed {
                let stream = streams[stream as usize];
                requests.push(Owner { stream, label: LabelId::default() });
            }
        }
        let mut cast = Self { requests, failures: Vec::new() };
        if let Some(trace) = trace {
            cast.read(trace, &streams, history);
        }
        cast
    }

    /// Takes labels and failures from the trace.
    fn read(&mut self, trace: &Trace, streams: &[StreamId], history: &mut History) {
        let labels: Vec<_> = trace.labels().iter().map(|label| history.label(label)).collect();
        let copies = self.requests.len() / (trace.blocks() as usize).max(1);
        let (mut calls, mut blocks) = (0, 0);
        for (index, operation) in trace.operations.iter().enumerate() {
            let label = trace.label(index).and_then(|label| labels.get(label.0 as usize));
            let label = label.copied().unwrap_or_default();
            match operation.action {
                Action::Allocate { .. } => {
                    let own = self.requests.iter_mut().skip(blocks * copies).take(copies);
                    own.for_each(|owner| owner.label = label);
                    blocks += 1;
                    calls += copies;
                }
                Action::Free { .. } => calls += copies,
                Action::Failure { size_bytes } => {
                    let stream = streams.get(operation.stream.0 as usize).copied();
                    let owner = Owner { stream: stream.unwrap_or_default(), label };
                    self.failures.push((calls, size_bytes, owner));
                }
                Action::UnknownFree => {}
            }
        }
        self.failures.reverse();
    }

    fn of(&self, request: u32) -> Owner {
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
        let Owner { stream, label } = self.of(request);
        history.push(event.on(stream).under(label));
    }

    /// Adds what the recorded program was refused before a call.
    pub(super) fn tell_failures(&mut self, call: usize, history: &mut History) {
        while let Some((at, bytes, owner)) = self.failures.pop_if(|failure| failure.0 <= call) {
            let event = Event::new(at as u64, Kind::Failure).at(0, bytes);
            history.push(event.on(owner.stream).under(owner.label));
        }
    }
}

/// What a stream is called: what its handle says, if there is one.
fn stream_name(stream: u32, trace: Option<&Trace>) -> String {
    match trace.and_then(|trace| trace.streams().get(stream as usize)) {
        Some(0) => "default stream".to_owned(),
        Some(handle) => format!("stream {stream} (0x{handle:x})"),
        None => format!("stream {stream}"),
    }
}
