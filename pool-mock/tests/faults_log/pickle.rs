//! A small pickle writer, and snapshots made with it.

/// A value to pickle.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Dict(Vec<(Value, Value)>),
}

/// How to write it, beside the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As Python does: strings and containers are remembered as they begin, lists and
    /// dicts are filled in batches, a single item on its own.
    Python,
    /// As C++ programs do: a list is filled at once, nothing is remembered.
    AtOnce,
    /// Each item of a list or dict on its own.
    OneByOne,
}

pub(crate) const STYLES: [Style; 3] = [Style::Python, Style::AtOnce, Style::OneByOne];

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

pub(crate) fn int(number: impl Into<i128>) -> Value {
    Value::Int(number.into())
}

pub(crate) fn dict<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Dict(pairs.into_iter().map(|(key, value)| (text(key), value)).collect())
}

/// An event of a device's trace, with a stack frame.
pub(crate) fn event(action: &str, address: u64, size_bytes: u64, stream: u64) -> Value {
    let frame = dict([("filename", text("train.py")), ("name", text("f")), ("line", int(3))]);
    dict([
        ("action", text(action)),
        ("addr", int(address)),
        ("size", int(size_bytes)),
        ("stream", int(stream)),
        ("frames", Value::List(vec![frame.clone(), frame])),
        ("time_us", int(1_700_000_000_000_000_u64)),
        ("user_metadata", text("")),
    ])
}

/// A segment of device 0 with these blocks: address, size, state.
pub(crate) fn segment(stream: u64, blocks: &[(u64, u64, &str)]) -> Value {
    let blocks = blocks.iter().map(|(address, size_bytes, state)| {
        dict([
            ("address", int(*address)),
            ("size", int(size_bytes.next_multiple_of(512))),
            ("requested_size", int(*size_bytes)),
            ("state", text(state)),
            ("frames", Value::List(vec![])),
        ])
    });
    dict([
        ("address", int(0)),
        ("blocks", Value::List(blocks.collect())),
        ("device", int(0)),
        ("stream", int(stream)),
        ("segment_pool_id", Value::Tuple(vec![int(0), int(0)])),
        ("is_expandable", Value::Bool(false)),
    ])
}

/// A snapshot of these segments and device traces.
pub(crate) fn snapshot(segments: Vec<Value>, traces: Vec<Vec<Value>>) -> Value {
    let settings = dict([
        ("PYTORCH_CUDA_ALLOC_CONF", text("")),
        ("max_split_size", int(-1)),
        ("garbage_collection_threshold", Value::Float(0.25)),
        ("roundup_power2_divisions", dict([("1", int(0)), ("2", int(4))])),
        ("nothing", Value::None),
    ]);
    dict([
        ("segments", Value::List(segments)),
        ("device_traces", Value::List(traces.into_iter().map(Value::List).collect())),
        ("allocator_settings", settings),
        ("external_annotations", Value::List(vec![])),
    ])
}

/// Pickles `value`.
pub(crate) fn write(value: &Value, protocol: u8, style: Style) -> Vec<u8> {
    let mut writer =
        Writer { protocol, style, bytes: vec![], frame: vec![], known: vec![], remembered: 0 };
    writer.value(value);
    writer.op(b".");
    writer.end_frame();
    let mut bytes = vec![0x80, protocol];
    bytes.append(&mut writer.bytes);
    bytes
}

struct Writer {
    protocol: u8,
    style: Style,
    bytes: Vec<u8>,
    frame: Vec<u8>,
    known: Vec<(String, u32)>,
    remembered: u32,
}

impl Writer {
    fn op(&mut self, op: &[u8]) {
        self.frame.extend_from_slice(op);
        if self.frame.len() > 500 {
            self.end_frame();
        }
    }

    fn end_frame(&mut self) {
        if self.protocol >= 4 {
            self.bytes.push(0x95);
            self.bytes.extend_from_slice(&(self.frame.len() as u64).to_le_bytes());
        }
        self.bytes.append(&mut self.frame);
    }

    fn with_length(&mut self, op: u8, length: &[u8], data: &[u8]) {
        let mut bytes = vec![op];
        bytes.extend_from_slice(length);
        bytes.extend_from_slice(data);
        self.op(&bytes);
    }

    fn remember(&mut self) -> u32 {
        let index = self.remembered;
        self.remembered += 1;
        match (self.protocol, u8::try_from(index)) {
            (4.., _) => self.op(&[0x94]),
            (_, Ok(index)) => self.op(&[b'q', index]),
            _ => self.with_length(b'r', &index.to_le_bytes(), &[]),
        }
        index
    }

    fn container(&mut self, op: u8) {
        self.op(&[op]);
        if self.style == Style::Python {
            self.remember();
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::None => self.op(b"N"),
            Value::Bool(yes) => self.op(&[if *yes { 0x88 } else { 0x89 }]),
            Value::Int(number) => self.int(*number),
            Value::Float(number) => self.with_length(b'G', &number.to_be_bytes(), &[]),
            Value::Text(text) => self.text(text),
            Value::Tuple(items) => {
                if items.len() > 3 {
                    self.op(b"(");
                }
                for item in items {
                    self.value(item);
                }
                self.op(match items.len() {
                    0 => b")",
                    1 => &[0x85],
                    2 => &[0x86],
                    3 => &[0x87],
                    _ => b"t",
                });
            }
            Value::List(items) => {
                self.container(b']');
                for batch in items.chunks(self.batch()) {
                    self.filled(batch.len(), b"a", b"e", |writer| {
                        for item in batch {
                            writer.value(item);
                        }
                    });
                }
            }
            Value::Dict(pairs) => {
                self.container(b'}');
                for batch in pairs.chunks(self.batch()) {
                    self.filled(batch.len(), b"s", b"u", |writer| {
                        for (key, value) in batch {
                            writer.value(key);
                            writer.value(value);
                        }
                    });
                }
            }
        }
    }

    fn batch(&self) -> usize {
        match self.style {
            Style::Python => 3,
            Style::AtOnce => usize::MAX,
            Style::OneByOne => 1,
        }
    }

    fn filled(&mut self, count: usize, one: &[u8], many: &[u8], items: impl Fn(&mut Self)) {
        if count == 1 && self.style != Style::AtOnce {
            items(self);
            self.op(one);
        } else {
            self.op(b"(");
            items(self);
            self.op(many);
        }
    }

    fn int(&mut self, number: i128) {
        if let Ok(number) = u8::try_from(number) {
            self.op(&[b'K', number]);
        } else if let Ok(number) = u16::try_from(number) {
            self.with_length(b'M', &number.to_le_bytes(), &[]);
        } else if let Ok(number) = i32::try_from(number) {
            self.with_length(b'J', &number.to_le_bytes(), &[]);
        } else {
            let mut bytes = number.to_le_bytes().to_vec();
            // The shortest that keeps the sign.
            while let [.., before, last] = bytes[..] {
                let spare = (last == 0 && before < 0x80) || (last == 0xff && before >= 0x80);
                if !spare {
                    break;
                }
                bytes.pop();
            }
            let count = u8::try_from(bytes.len()).expect("at most 16");
            self.with_length(0x8a, &[count], &bytes);
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, index)) = self.known.iter().find(|known| known.0 == text) {
            let index = *index;
            match u8::try_from(index) {
                Ok(index) => self.op(&[b'h', index]),
                Err(_) => self.with_length(b'j', &index.to_le_bytes(), &[]),
            }
            return;
        }
        let length = u32::try_from(text.len()).expect("a short text");
        match (self.protocol, u8::try_from(length)) {
            (4.., Ok(length)) => self.with_length(0x8c, &[length], text.as_bytes()),
            _ => self.with_length(b'X', &length.to_le_bytes(), text.as_bytes()),
        }
        if self.style == Style::Python {
            let index = self.remember();
            self.known.push((text.to_owned(), index));
        }
    }
}
