//! What in the recorded program asked for memory.

use pool_mock::{
    Action, Trace,
    log::{Format, LabelId, Loss, convert},
};

use crate::pickle::{self, STYLES, Style, Value, dict, int, segment, snapshot, text};

fn frame(file: &str, line: u32, name: &str) -> Value {
    dict([("line", int(line)), ("name", text(name)), ("filename", text(file))])
}

/// From the innermost out.
fn stack() -> Vec<Value> {
    vec![
        frame("??", 0, "torch::unwind::unwind()"),
        frame("/v/lib/python3.12/site-packages/torch/nn/modules/linear.py", 134, "forward"),
        // Functions that are called what keys and actions are.
        frame("/home/me/net.py", 12, "size"),
        frame("/home/me/train.py", 90, "alloc"),
        frame("/usr/lib/python3.12/runpy.py", 88, "_run_code"),
    ]
}

fn event(action: &str, address: u64, frames: Vec<Value>, note: &str) -> Value {
    dict([
        ("action", text(action)),
        ("addr", int(address)),
        ("size", int(100)),
        ("stream", int(0)),
        ("frames", Value::List(frames)),
        ("user_metadata", text(note)),
        ("time_us", int(5)),
    ])
}

fn labels(trace: &Trace) -> Vec<Option<&str>> {
    let label = |index| trace.label(index).map(|LabelId(id)| &*trace.labels()[id as usize]);
    (0..trace.operations.len()).map(label).collect()
}

#[test]
fn allocations_and_failures_have_the_line_that_asked() {
    let me = "/home/me/net.py:12 size";
    let events = vec![
        event("alloc", 0x100, stack(), ""),
        event("free_requested", 0x100, vec![frame("/home/me/train.py", 95, "main")], ""),
        event("free_completed", 0x100, vec![], ""),
        event("alloc", 0x100, vec![], ""),
        event("alloc", 0x200, vec![], "step 7"),
        event("alloc", 0x300, stack(), "step 7"),
        event("oom", 0, stack(), ""),
        event("alloc", 0x400, vec![frame("??", 0, "")], ""),
        event("alloc", 0x500, stack().into_iter().take(2).collect(), ""),
        event("alloc", 0x600, stack(), ""),
    ];
    for style in STYLES {
        for protocol in 2..=5 {
            let value = snapshot(vec![], vec![events.clone()]);
            let trace = Trace::read(&pickle::write(&value, protocol, style)[..]).unwrap();
            let noted = "/home/me/net.py:12 size (step 7)";
            let torch = "torch/nn/modules/linear.py:134 forward";
            assert_eq!(
                labels(&trace),
                [
                    Some(me),
                    None,
                    None,
                    Some("step 7"),
                    Some(noted),
                    Some(me),
                    Some("??"),
                    Some(torch),
                    Some(me)
                ]
                .map(|label| label.filter(|label| *label != "??")),
                "{style:?} {protocol}"
            );
            assert_eq!(trace.labels().len(), 4, "each is kept once");
        }
    }
    let bytes = pickle::write(&snapshot(vec![], vec![events]), 4, Style::Python);
    let conversion = convert(&bytes[..], std::io::sink(), Format::Rmm).unwrap();
    assert!(conversion.lost.contains(&Loss::Labels(6)), "{conversion:?}");
}

#[test]
fn blocks_of_before_have_the_label_of_their_block() {
    let Value::Dict(mut pairs) = segment(1, &[(0x900, 10, "active_allocated")]) else { panic!() };
    for (key, value) in &mut pairs {
        let (Value::Text(key), Value::List(blocks)) = (&*key, value) else { continue };
        let [Value::Dict(block)] = &mut blocks[..] else { panic!("{key}") };
        for (key, value) in block {
            if matches!(key, Value::Text(key) if key == "frames") {
                *value = Value::List(stack());
            }
        }
    }
    let events =
        vec![event("free_requested", 0x100, stack(), ""), event("alloc", 0x200, stack(), "")];
    for style in STYLES {
        let value = snapshot(vec![Value::Dict(pairs.clone())], vec![events.clone()]);
        let trace = Trace::read(&pickle::write(&value, 4, style)[..]).unwrap();
        assert_eq!(trace.live_at_start(), 2);
        let me = Some("/home/me/net.py:12 size");
        // The first is known by its free only, whose stack is another matter.
        assert_eq!(labels(&trace), [None, me, None, me]);
        assert!(matches!(trace.operations[2].action, Action::Free { .. }));
    }
}

/// Python names a stack again that it has written, wherever it was first: under a segment, or
/// before it is whole.
#[test]
fn stacks_and_frames_that_are_named_again_are_known() {
    let mut bytes = b"\x80\x04}\x94(\x8c\x08segments]\x94}\x94(\x8c\x06frames\x94]\x94(".to_vec();
    // Memo: 0 snapshot, 1 segments, 2 segment, 3 "frames", 4 stack, 5 and 6 frames.
    bytes.extend_from_slice(
        b"}\x94(\x8c\x08filename\x8c\x04a.py\x8c\x04lineK\x07\x8c\x04name\x8c\x01fu",
    );
    bytes.extend_from_slice(
        b"}\x94(\x8c\x08filename\x8c\x05b.cpp\x8c\x04lineK\x08\x8c\x04name\x8c\x01gu",
    );
    bytes.extend_from_slice(b"e\x8c\x06blocks]ua\x8c\x0ddevice_traces]](");
    let mut event = |address: u8, frames: &[u8]| {
        bytes.extend_from_slice(b"}(\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x08\x8c\x04addrK");
        bytes.push(address);
        bytes.extend_from_slice(b"h\x03");
        bytes.extend_from_slice(frames);
        bytes.push(b'u');
    };
    event(1, b"h\x04"); // the stack again
    event(2, b"](h\x06h\x05e"); // a new one of known frames
    event(3, b"]h\x06a"); // of one alone
    event(4, b"](h\x06}(\x8c\x08filename\x8c\x04c.py\x8c\x04lineK\x09uh\x05e"); // known and new
    event(5, b"]");
    bytes.extend_from_slice(b"eau.");
    let trace = Trace::read(&bytes[..]).unwrap();
    let (a, b) = (Some("a.py:7 f"), Some("b.cpp:8 g"));
    assert_eq!(labels(&trace), [a, a, b, Some("c.py:9"), None]);
}

/// A frame or a stack that gets more items when it is named again stays what it was, and so does
/// everything around it.
#[test]
fn what_is_changed_after_it_was_named_stays_as_it_was() {
    for changed in [&b"h\x01h\x02a"[..], b"h\x02(\x8c\x04lineK\x63u", b"h\x01]a", b"h\x01"] {
        let mut bytes = b"\x80\x04}(\x8c\x0ddevice_traces]]}(\x8c\x06frames\x940]\x94".to_vec();
        bytes.truncate(bytes.len() - 3);
        bytes.extend_from_slice(b"]\x94}\x94(\x8c\x08filename\x8c\x04a.py\x8c\x04lineK\x07ua");
        bytes.extend_from_slice(b"\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x08\x8c\x04addrK\x01");
        bytes.extend_from_slice(b"\x8c\x05other");
        bytes.extend_from_slice(changed);
        bytes.extend_from_slice(b"uaau.");
        let trace = Trace::read(&bytes[..]).unwrap_or_else(|error| panic!("{changed:?}: {error}"));
        assert_eq!(labels(&trace), [Some("a.py:7")]);
    }
}
