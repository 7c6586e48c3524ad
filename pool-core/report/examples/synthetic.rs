//! Writes the report of a made-up program, as long as you like: `synthetic 5000000 report.html`.
//!
//! Iterations of many layers, each with activations that live until its backward pass, on three
//! streams; weights that stay; a request now and then that is refused.

use core::error::Error;
use std::{env, fs::File, io::BufWriter};

use pool_report::{Clock, Event, Figure, History, Kind, LabelId, Policy, StreamId, Unit};

const LAYERS: u64 = 24;
const PARTS: [&str; 6] = ["attention", "mlp", "norm", "residual", "dropout", "workspace"];
const RESERVED_BYTES: u64 = 6 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let operations: u64 = arguments.next().as_deref().unwrap_or("1000000").parse()?;
    let path = arguments.next().unwrap_or_else(|| "report.html".to_owned());
    let mut program = Program::new(operations);
    while program.history.events() < operations {
        program.iteration();
    }
    program.history.figure(Figure::new(Policy::Growth, "growths", 1.0, Unit::Count));
    pool_report::write(&program.history, BufWriter::new(File::create(&path)?))?;
    println!(
        "{path}: {} events, peak live {} bytes, {} failures",
        program.history.events(),
        program.history.peak_live().bytes,
        program.history.failures()
    );
    Ok(())
}

/// The program, with the simplest allocator there is: blocks in a row, round and round.
struct Program {
    history: History,
    streams: [StreamId; 3],
    labels: Vec<LabelId>,
    time: u64,
    random: u64,
    next_address: u64,
    weights_end: u64,
}

impl Program {
    fn new(operations: u64) -> Self {
        let mut history = History::new(format!("synthetic, {operations} operations"))
            .source("made up by an example of pool-report")
            .clock(Clock::Nanoseconds);
        let streams = ["compute", "copies", "reduce"].map(|name| history.stream(name));
        let labels = (0..LAYERS)
            .flat_map(|layer| PARTS.map(|part| format!("layer {layer} / {part}")))
            .map(|name| history.label(&name))
            .collect();
        history.push(Event::new(0, Kind::Growth).at(0, RESERVED_BYTES));
        let weights = history.label("weights");
        let mut program =
            Self { history, streams, labels, time: 0, random: 1, next_address: 0, weights_end: 0 };
        for _ in 0..LAYERS {
            program.allocate(96 << 20, 0, weights);
        }
        program.weights_end = program.next_address;
        program
    }

    /// Forward, with some blocks that go at once, then backward.
    fn iteration(&mut self) {
        self.history.mark("iteration");
        let mut kept = Vec::new();
        for layer in 0..self.labels.len() {
            let label = self.labels[layer];
            for _ in 0..8 {
                let bytes = (self.draw(64) + 1) << (8 + self.draw(12));
                let stream = usize::try_from(self.draw(16)).unwrap_or(0).saturating_sub(13);
                let address = self.allocate(bytes, stream, label);
                if self.draw(3) == 0 {
                    kept.push((address, bytes));
                } else {
                    self.free(address, stream);
                }
            }
            if self.draw(4000) == 0 {
                let failure = Event::new(self.time, Kind::Failure).at(0, 5 << 30);
                self.history.push(failure.on(self.streams[0]).under(label));
            }
        }
        for (address, _) in kept.into_iter().rev() {
            self.free(address, 0);
        }
        self.next_address = self.weights_end;
    }

    fn allocate(&mut self, bytes: u64, stream: usize, label: LabelId) -> u64 {
        let address = self.next_address;
        self.next_address += bytes.next_multiple_of(256);
        if self.next_address > RESERVED_BYTES {
            self.next_address = self.weights_end;
        }
        self.time += 200 + self.draw(2000);
        let event = Event::new(self.time, Kind::Allocate).at(address, bytes);
        self.history.push(event.on(self.streams[stream]).under(label));
        address
    }

    /// What was used on another stream waits for a while: one event more.
    fn free(&mut self, address: u64, stream: usize) {
        self.time += 100 + self.draw(1000);
        if stream == 0 {
            self.history.push(Event::new(self.time, Kind::Free).at(address, 0));
            return;
        }
        self.history.push(Event::new(self.time, Kind::FreeAsked).at(address, 0));
        self.time += 5000;
        self.history.push(Event::new(self.time, Kind::FreeDone).at(address, 0));
    }

    /// A number below another: xorshift.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }
}
