//! Writes the reports that the tests in a browser look at, and what they should find there:
//! `samples FOLDER`. One JSON object a line goes to the output.

use core::error::Error;
use std::{env, fs, fs::File, io::BufWriter, path::Path};

use pool_report::{Clock, Event, Figure, History, Kind, Policy, Unit};

const MIB: u64 = 1 << 20;

/// Nobody should see this as markup.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("samples FOLDER")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    for (name, history) in [
        ("empty", History::new("nothing")),
        ("hostile", hostile()),
        ("full", full()),
        ("paged", paged()),
        ("long", long()),
    ] {
        pool_report::write(
            &history,
            BufWriter::new(File::create(folder.join(name).with_extension("html"))?),
        )?;
        let (live, reserved) = (history.peak_live(), history.peak_reserved());
        println!(
            r#"{{"name":"{name}","events":{},"peakLive":{},"peakLiveTime":{},"peakReserved":{},"liveAtEnd":{},"failures":{}}}"#,
            history.events(),
            live.bytes,
            live.time,
            reserved.bytes,
            history.live_bytes(),
            history.failures(),
        );
    }
    Ok(())
}

/// Every text of it wants out.
fn hostile() -> History {
    let mut history = History::new(HOSTILE).source(HOSTILE);
    let (stream, label) = (history.stream(HOSTILE), history.label(HOSTILE));
    history.arena(HOSTILE, 0, 4 * MIB);
    history.push(Event::new(0, Kind::Growth).at(0, 4 * MIB));
    history.push(Event::new(1, Kind::Allocate).at(0, MIB).on(stream).under(label));
    history.push(Event::new(2, Kind::Failure).at(0, MIB).on(stream).under(label));
    history.mark(HOSTILE);
    history.figure(Figure::new(Policy::Other, HOSTILE, 1.0, Unit::Count));
    history
}

/// Two streams, three failures, blocks that wait.
fn full() -> History {
    let mut history =
        History::new("a pool that was full").source("made for the tests").clock(Clock::Nanoseconds);
    let streams = ["compute", "copies"].map(|name| history.stream(name));
    let labels = ["weights", "activations", "gradients"].map(|name| history.label(name));
    history.push(Event::new(0, Kind::Growth).at(0, 64 * MIB));
    history.push(Event::new(0, Kind::Growth).at(256 * MIB, 64 * MIB));
    let mut time = 0;
    for block in 0..12 {
        time += 1500;
        let address = (block / 6) * 256 * MIB + (block % 6) * 10 * MIB;
        let index = usize::try_from(block).unwrap_or(0);
        let event = Event::new(time, Kind::Allocate).at(address, (4 + block % 6) * MIB);
        history.push(event.on(streams[index % 2]).under(labels[index % 3]));
    }
    history.push(Event::new(time + 10, Kind::Steal).at(0, MIB).on(streams[1]));
    for bytes in [90 * MIB, 30 * MIB, 20 * MIB] {
        time += 4000;
        history.push(Event::new(time, Kind::Failure).at(0, bytes).on(streams[0]).under(labels[1]));
    }
    for address in [0, 10 * MIB] {
        history.push(Event::new(time + 100, Kind::FreeAsked).at(address, 0).on(streams[0]));
    }
    history.mark("freed two");
    history.push(Event::new(time + 900, Kind::FreeDone).at(0, 0));
    history.push(Event::new(time + 1000, Kind::Trim).at(300 * MIB + 20 * MIB - MIB, MIB));
    history.figure(Figure::new(Policy::Growth, "growths", 2.0, Unit::Count));
    history.figure(Figure::new(Policy::Reuse, "served from free memory", 0.8, Unit::Share));
    history
}

/// Pages come and go under addresses.
fn paged() -> History {
    let mut history = History::new("pages");
    let stream = history.stream("compute");
    history.arena("addresses", 0, 64 * MIB);
    for round in 0..1000 {
        let page = (round * 7) % 32;
        history.push(Event::new(round, Kind::Commit).at(page * 2 * MIB, 2 * MIB));
        history.push(Event::new(round, Kind::Allocate).at(page * 2 * MIB, MIB).on(stream));
        history.push(Event::new(round, Kind::Free).at(page * 2 * MIB, 0));
        if round % 3 != 0 {
            history.push(Event::new(round, Kind::Decommit).at(page * 2 * MIB, 2 * MIB));
        }
    }
    history
}

/// Long, with one block that is there for a moment only: the peak.
fn long() -> History {
    let mut history = History::new("a peak of one event");
    let stream = history.stream("compute");
    history.push(Event::new(0, Kind::Growth).at(0, 1024 * MIB));
    for round in 0..60_000 {
        let address = (round % 200) * MIB;
        history.push(Event::new(round, Kind::Allocate).at(address, MIB).on(stream));
        if round == 41_234 {
            history.push(Event::new(round, Kind::Allocate).at(512 * MIB, 500 * MIB).on(stream));
            history.push(Event::new(round, Kind::Free).at(512 * MIB, 0));
        }
        if round >= 150 {
            history.push(Event::new(round, Kind::Free).at(((round - 150) % 200) * MIB, 0));
        }
    }
    history
}
