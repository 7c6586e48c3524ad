//! What PyTorch's viewers need of a snapshot: opcodes that the one in a browser knows, segments
//! that every block lies in; and what Python makes of the bytes, where there is a Python.

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
};

use pool_mock::log::{Entry, Format, Step, convert, snapshot::Writer};

/// A value as the viewer makes it of the opcodes that it knows; panics at any other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    /// A tuple is a list there.
    List(Vec<Value>),
    Dict(HashMap<String, Value>),
}

impl Value {
    pub(crate) fn get(&self, key: &str) -> &Self {
        self.find(key).unwrap_or_else(|| panic!("no {key} in {self:?}"))
    }

    pub(crate) fn find(&self, key: &str) -> Option<&Self> {
        let Self::Dict(dict) = self else { panic!("{self:?} is no dict") };
        dict.get(key)
    }

    pub(crate) fn list(&self) -> &[Self] {
        let Self::List(items) = self else { panic!("{self:?} is no list") };
        items
    }

    pub(crate) fn int(&self) -> i128 {
        let Self::Int(number) = self else { panic!("{self:?} is no number") };
        *number
    }

    pub(crate) fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("{self:?} is no text") };
        text
    }
}

fn unsigned(bytes: &[u8]) -> i128 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | i128::from(*byte))
}

fn size(bytes: &[u8]) -> usize {
    usize::try_from(unsigned(bytes)).unwrap()
}

/// Reads a pickle with the opcodes that the viewer knows and the writer uses. Containers must be
/// whole before they are named again, for here they are copied.
pub(crate) fn unpickle(bytes: &[u8]) -> Value {
    assert_eq!(bytes[..2], [0x80, 4], "a protocol that the viewer takes");
    let (mut stack, mut marks, mut memo) = (vec![], vec![], vec![]);
    let mut rest = &bytes[2..];
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at(count);
        rest = left;
        taken
    };
    loop {
        let opcode = take(1)[0];
        match opcode {
            b'.' => break,
            b'(' => marks.push(stack.len()),
            b'}' => stack.push(Value::Dict(HashMap::new())),
            b']' => stack.push(Value::List(vec![])),
            0x88 | 0x89 => stack.push(Value::Bool(opcode == 0x88)),
            b'K' => stack.push(Value::Int(unsigned(take(1)))),
            b'M' => stack.push(Value::Int(unsigned(take(2)))),
            b'J' => {
                let bytes = take(4).try_into().unwrap();
                stack.push(Value::Int(i32::from_le_bytes(bytes).into()));
            }
            0x8a => {
                let count = size(take(1));
                assert!((1..=9).contains(&count));
                let number = unsigned(take(count));
                assert_eq!(number >> (8 * count - 1), 0, "the sign is plus");
                stack.push(Value::Int(number));
            }
            b'G' => stack.push(Value::Float(f64::from_be_bytes(take(8).try_into().unwrap()))),
            0x8c | b'X' => {
                let length = size(take(if opcode == b'X' { 4 } else { 1 }));
                stack.push(Value::Text(str::from_utf8(take(length)).unwrap().to_owned()));
            }
            0x94 => memo.push(stack.last().cloned().unwrap()),
            b'h' => stack.push(memo[size(take(1))].clone()),
            b'j' => stack.push(memo[size(take(4))].clone()),
            0x86 => {
                let pair = stack.split_off(stack.len() - 2);
                stack.push(Value::List(pair));
            }
            b'e' => {
                let items = stack.split_off(marks.pop().unwrap());
                // They are the arguments of one call there.
                assert!(items.len() <= 1000, "{} at once", items.len());
                let Some(Value::List(list)) = stack.last_mut() else { panic!("no list") };
                list.extend(items);
            }
            b'u' => {
                let pairs = stack.split_off(marks.pop().unwrap());
                let Some(Value::Dict(dict)) = stack.last_mut() else { panic!("no dict") };
                for pair in pairs.chunks(2) {
                    let old = dict.insert(pair[0].text().to_owned(), pair[1].clone());
                    assert_eq!(old, None, "twice");
                }
            }
            _ => panic!("the viewer knows no opcode {opcode:#x}, or the writer none such"),
        }
    }
    assert!(rest.is_empty() && marks.is_empty() && stack.len() == 1);
    stack.remove(0)
}

/// Checks all that the viewers take for granted.
pub(crate) fn check_snapshot(bytes: &[u8]) {
    let snapshot = unpickle(bytes);
    let mut segments = vec![];
    let mut live = HashMap::new();
    for segment in snapshot.get("segments").list() {
        let start = segment.get("address").int();
        let mut at = start;
        let mut active = 0;
        for block in segment.get("blocks").list() {
            assert_eq!(block.get("address").int(), at, "blocks fill their segment");
            assert!(block.get("size").int() > 0);
            if block.get("state").text() == "active_allocated" {
                live.insert(at, block.get("requested_size").int());
                active += block.get("size").int();
            }
            block.get("frames").list();
            at += block.get("size").int();
        }
        assert_eq!(at, start + segment.get("total_size").int());
        assert_eq!(active, segment.get("active_size").int());
        assert!(segments.last().is_none_or(|(_, end)| *end < start), "in order, and apart");
        segments.push((start, at));
    }
    let contains = |address| {
        let after = segments.partition_point(|(start, _)| *start <= address);
        segments[..after].last().is_some_and(|(_, end)| address < *end)
    };
    // Back in time from the end, as the state history goes.
    let [events] = snapshot.get("device_traces").list() else { panic!("one device") };
    let mut requested = None;
    for event in events.list().iter().rev() {
        event.get("stream").int();
        let size = event.get("size").int();
        let address = event.find("addr").map(Value::int);
        if let Some(address) = address {
            assert!(contains(address), "{event:?} is in no segment");
        }
        match event.get("action").text() {
            "alloc" => {
                let address = address.unwrap();
                assert_eq!(live.remove(&address), (size > 0).then_some(size));
            }
            "free_completed" => {
                assert_eq!(requested.replace(address), None);
                if size > 0 {
                    // Twice, if a log frees twice what it never hands out.
                    live.insert(address.unwrap(), size);
                }
            }
            "free_requested" => assert_eq!(requested.take(), Some(address), "side by side"),
            "oom" => drop(event.get("device_free").int()),
            action => panic!("{action}"),
        }
    }
    assert_eq!(requested, None);
}

/// Logs that take a build without optimization too long.
const LARGE: [&str; 3] = ["gpt2_train", "llama_finetune", "llama_generate"];

/// The snapshots of the repository's logs, and one with all that a snapshot can have.
fn snapshots() -> &'static [(String, Vec<u8>)] {
    static ALL: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/traces");
        let mut all = vec![("everything".to_owned(), everything())];
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_large = LARGE.iter().any(|large| name.starts_with(large));
            let is_log = name.contains(".csv") || name.contains(".pickle");
            if is_log && !(cfg!(debug_assertions) && is_large) {
                let mut written = vec![];
                convert(File::open(&path).unwrap(), &mut written, Format::Snapshot).unwrap();
                all.push((name, written));
            }
        }
        assert!(all.len() > 6);
        all
    });
    &ALL
}

fn everything() -> Vec<u8> {
    let mut writer = Writer::new(vec![]).unwrap();
    let mut write = |step, label| {
        let stream = 0x7f00_0000_0000;
        let time_us = Some(1_700_000_000_000_000);
        writer.write(&Entry { step, stream, thread: 9, time_us, label }).unwrap();
    };
    let (a, b, c) = (0x7f00_0000_0000, 0x7f00_0000_0100, 0x7f10_0000_0200);
    let long = format!("/{}/train.py:7 go", "deep".repeat(100));
    write(Step::Allocate { address: a, size_bytes: 200 }, Some("train.py:12 forward"));
    write(Step::Allocate { address: b, size_bytes: 3 << 21 }, Some("train.py:12 forward"));
    write(Step::Allocate { address: c, size_bytes: 1 }, Some(&long));
    write(Step::Free { address: a, size_bytes: 200 }, None);
    write(Step::Free { address: c + (9 << 21), size_bytes: 77 }, None);
    write(Step::Failure { size_bytes: 1 << 40, device_free_bytes: Some(12) }, Some("layer 3"));
    writer.finish().unwrap()
}

#[test]
fn p097_written_snapshots_have_what_the_viewer_needs() {
    for (name, bytes) in snapshots() {
        // One was not written here but copied: its segments are PyTorch's own.
        if !name.contains(".pickle") {
            check_snapshot(bytes);
        }
    }
}

#[test]
fn labels_are_stacks_that_are_written_once() {
    let snapshot = unpickle(&everything());
    let [events] = snapshot.get("device_traces").list() else { panic!("one device") };
    let frames = |event: &Value| {
        let [frame] = event.get("frames").list() else { panic!("one frame in {event:?}") };
        let text = |key| frame.get(key).text().to_owned();
        (text("filename"), frame.get("line").int(), text("name"))
    };
    let events = events.list();
    let forward = ("train.py".to_owned(), 12, "forward".to_owned());
    assert_eq!([frames(&events[0]), frames(&events[1])], [forward.clone(), forward.clone()]);
    assert_eq!(frames(&events[7]), (String::new(), 0, "layer 3".to_owned()));
    assert_eq!(events[7].get("device_free").int(), 12);
    let blocks: Vec<_> = snapshot
        .get("segments")
        .list()
        .iter()
        .flat_map(|segment| segment.get("blocks").list())
        .collect();
    let live = blocks.iter().find(|block| block.get("state").text() == "active_allocated");
    assert_eq!(frames(live.unwrap()), forward);
    let count = everything().windows(7).filter(|window| window == b"forward").count();
    assert_eq!(count, 1);
}

/// Runs a program of Python over the snapshots, each from a file; `None` where there is no Python
/// or it lacks a module, with which the exit code is 3.
fn python(program: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = snapshots()
        .iter()
        .map(|(name, bytes)| {
            let path = folder.path().join(name.replace(".gz", ""));
            std::fs::write(&path, bytes).unwrap();
            path
        })
        .collect();
    let mut child = Command::new("python3")
        .arg("-")
        .args(paths)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(0) => Some(String::from_utf8(output.stdout).unwrap()),
        Some(3) => None,
        _ => panic!("{output:?}"),
    }
}

#[test]
fn p097_python_reads_what_is_written() {
    let program = "
import pickle, sys
for path in sys.argv[1:]:
    data = open(path, 'rb').read()
    snapshot = pickle.loads(data)
    [events] = snapshot['device_traces']
    assert snapshot['allocator_settings']['max_split_size'] == -1
    assert snapshot['allocator_settings']['garbage_collection_threshold'] == 0.0
    assert snapshot['allocator_settings']['roundup_power2_divisions']['32768'] == 0
    assert snapshot['external_annotations'] == []
    for segment in snapshot['segments']:
        assert segment['segment_pool_id'] == (0, 0)
        assert sum(block['size'] for block in segment['blocks']) == segment['total_size']
    allocated = sum(event['size'] for event in events if event['action'] == 'alloc')
    print(path.rsplit('/')[-1], len(events), len(snapshot['segments']), allocated)
";
    let Some(printed) = python(program) else {
        println!("passed over: there is no python3");
        return;
    };
    let line = |name: &str| printed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(line("everything"), format!("everything 8 3 {}", 201 + (3 << 21)));
    assert!(line("multi_stream.csv").starts_with("multi_stream.csv 2894 "));
    assert!(line("multi_stream.snapshot").starts_with("multi_stream.snapshot.pickle 2903 56 "));
}

#[test]
fn p097_the_viewer_of_pytorch_reads_what_is_written() {
    let program = "
import pickle, sys
try:
    from torch.cuda import _memory_viz
except ImportError:
    sys.exit(3)
same = lambda lines: lines
for path in sys.argv[1:]:
    snapshot = pickle.load(open(path, 'rb'))
    blocks = sum(len(segment['blocks']) for segment in snapshot['segments'])
    for listed in [_memory_viz.segments, _memory_viz.memory]:
        assert listed(snapshot, format_flamegraph=same).count('\\n') >= blocks
    assert 'total_reserved' in _memory_viz.segsum(snapshot)
    if len(snapshot['device_traces'][0]) < 10_000:
        assert 'entries' in _memory_viz.trace(snapshot)
    for plot in [_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)]:
        assert 'add_local_files' in plot
    assert 'add_local_files' in _memory_viz.trace_plot(snapshot, filter_freed=True)
    print(path)
";
    match python(program) {
        Some(printed) => assert_eq!(printed.lines().count(), snapshots().len()),
        None => println!("passed over: there is no python3 with torch"),
    }
}
