//! The stack frames of a snapshot, each kept once, and which of a stack says the most.
//!
//! A snapshot lists the stack of each allocation from the innermost frame out: the allocator,
//! PyTorch in C++, PyTorch in Python, and somewhere behind them the line that a person wrote.
//! That line is the innermost of Python outside of PyTorch and of the standard library. Where
//! there is none, as in a backward pass, the innermost of the next best kind has to do.

use std::collections::HashMap;

use super::{value::Value, word::Word};
use crate::log::strings::Strings;

/// A frame, by its number; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FrameId(pub(super) u32);

/// A frame: numbers of texts (0 is none), and a line (0 is none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) file: u32,
    pub(super) function: u32,
    pub(super) line: u32,
}

/// How much a frame says, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Nothing,
    /// What every stack has: the allocator, and what takes down the stack.
    Machinery,
    /// Compiled code.
    Native,
    /// Python of PyTorch, of the standard library, or generated.
    Beneath,
    Program,
}

/// All frames met so far.
#[derive(Debug)]
pub(super) struct Frames {
    texts: Strings,
    list: Vec<(Frame, Rank)>,
    known: HashMap<Frame, FrameId>,
}

impl Frames {
    pub(super) fn new() -> Self {
        let mut texts = Strings::default();
        // Number 0 is no text.
        texts.number("");
        let none = (Frame::default(), Rank::Nothing);
        Self {
            texts,
            list: vec![none],
            known: HashMap::from([(Frame::default(), FrameId::default())]),
        }
    }

    /// The number of a text; 0 if there are too many.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        self.texts.number(text).unwrap_or(0)
    }

    /// The text that a value is; 0 if it is none.
    pub(super) fn text_of(&mut self, value: Value) -> u32 {
        match value {
            Value::Text(text) => text,
            // A function may be called "alloc".
            Value::Word(word) => self.text(word.text()),
            _ => 0,
        }
    }

    /// The number of a frame; none if there are too many.
    pub(super) fn number(&mut self, frame: Frame) -> FrameId {
        if let Some(number) = self.known.get(&frame) {
            return *number;
        }
        let Ok(number) = u32::try_from(self.list.len()) else { return FrameId::default() };
        let rank = rank(self.texts.get(frame.file), self.texts.get(frame.function));
        self.list.push((frame, rank));
        self.known.insert(frame, FrameId(number));
        FrameId(number)
    }

    /// Which of two says more; of equal ones the first.
    pub(super) fn better(&self, first: FrameId, second: FrameId) -> FrameId {
        if self.rank(second) > self.rank(first) { second } else { first }
    }

    /// A frame and the program's own note in one line, `file:line function (note)`; `None` if
    /// both say nothing.
    pub(super) fn label(&self, frame: FrameId, note: u32) -> Option<String> {
        let note = self.texts.get(note);
        match (self.frame_text(frame), note) {
            (None, "") => None,
            (None, note) => Some(note.to_owned()),
            (Some(frame), "") => Some(frame),
            (Some(frame), note) => Some(format!("{frame} ({note})")),
        }
    }

    fn frame_text(&self, number: FrameId) -> Option<String> {
        let (frame, rank) = self.list.get(number.0 as usize)?;
        let (file, function) = (self.texts.get(frame.file), self.texts.get(frame.function));
        match rank {
            Rank::Nothing => None,
            _ if matches!(file, "" | "??") => Some(function.to_owned()),
            _ => Some(format!("{}:{} {function}", short(file), frame.line).trim_end().to_owned()),
        }
    }

    fn rank(&self, number: FrameId) -> Rank {
        self.list.get(number.0 as usize).map_or(Rank::Nothing, |(_, rank)| *rank)
    }
}

impl Word {
    /// The string that it stands for.
    fn text(self) -> &'static str {
        match self {
            Self::Other | Self::Upkeep => "",
            Self::Segments => "segments",
            Self::DeviceTraces => "device_traces",
            Self::Blocks => "blocks",
            Self::Device => "device",
            Self::Address => "addr",
            Self::Size => "size",
            Self::RequestedSize => "requested_size",
            Self::Stream => "stream",
            Self::Time => "time_us",
            Self::State => "state",
            Self::Action => "action",
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::OutOfMemory => "oom",
            Self::ActiveAllocated => "active_allocated",
            Self::Frames => "frames",
            Self::FileName => "filename",
            Self::Name => "name",
            Self::Line => "line",
            Self::UserMetadata => "user_metadata",
            Self::DeviceFree => "device_free",
        }
    }
}

/// The folders that installed packages are in.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// What runs a program rather than being one, by the folder of its package.
const TORCH: [&str; 3] = ["torch", "functorch", "triton"];

/// Functions that are on every compiled stack.
const MACHINERY: [&str; 6] = [
    "unwind",
    "CapturedTraceback",
    "gather_with_cpp",
    "CachingAllocator",
    "c10::",
    "at::detail::empty",
];

fn rank(file: &str, function: &str) -> Rank {
    if matches!(file, "" | "??") && function.is_empty() {
        return Rank::Nothing;
    }
    if let Some(name) = file.strip_prefix('<') {
        // A cell or the prompt is the program's; the rest is generated or frozen in.
        let typed = name.starts_with("ipython-input") || name.starts_with("stdin");
        return if typed { Rank::Program } else { Rank::Beneath };
    }
    let is_python = [".py", ".pyx", ".pyw"].iter().any(|end| file.ends_with(end));
    if !is_python {
        let is_machinery = MACHINERY.iter().any(|part| function.contains(part));
        return if is_machinery { Rank::Machinery } else { Rank::Native };
    }
    if is_torch(file) || is_standard_library(file) { Rank::Beneath } else { Rank::Program }
}

/// Whether a file belongs to PyTorch, installed or built from its sources, or was written by it.
fn is_torch(file: &str) -> bool {
    pairs(file).any(|(folder, next)| {
        (PACKAGES.contains(&folder) && TORCH.contains(&next))
            || (folder == "pytorch" && next == "torch")
            || next.starts_with("torchinductor_")
    })
}

/// Whether a file belongs to Python itself: in `lib/python3.x`, on Windows `Python3x\Lib`, but
/// not in a folder of packages there.
fn is_standard_library(file: &str) -> bool {
    let mut before = "";
    pairs(file).any(|(folder, next)| {
        let unix = before.starts_with("lib") && folder.starts_with("python3");
        let windows = before.starts_with("Python3") && folder.eq_ignore_ascii_case("lib");
        before = folder;
        (unix || windows) && !PACKAGES.contains(&next)
    })
}

/// Each part of a path with the one behind it.
fn pairs(path: &str) -> impl Iterator<Item = (&str, &str)> {
    parts(path).zip(parts(path).skip(1))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\'])
}

/// A path without what leads to the folder of installed packages.
fn short(file: &str) -> &str {
    let packages = PACKAGES.iter().filter_map(|folder| {
        let (_, rest) = file.rsplit_once(folder)?;
        rest.strip_prefix(['/', '\\'])
    });
    packages.min_by_key(|rest| rest.len()).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_what_they_say() {
        let cases = [
            ("/home/me/run/train.py", Rank::Program),
            ("/tmp/ipykernel_31/2871.py", Rank::Program),
            ("<ipython-input-3-1f>", Rank::Program),
            ("<stdin>", Rank::Program),
            ("<string>", Rank::Beneath),
            ("<frozen runpy>", Rank::Beneath),
            ("<eval_with_key>.12", Rank::Beneath),
            ("/v/lib/python3.12/site-packages/transformers/models/llama.py", Rank::Program),
            ("/v/lib/python3.12/site-packages/torch/nn/modules/linear.py", Rank::Beneath),
            ("/usr/lib/python3/dist-packages/torch/_ops.py", Rank::Beneath),
            ("/src/pytorch/torch/optim/adam.py", Rank::Beneath),
            ("/home/me/torch/train.py", Rank::Program),
            ("/tmp/torchinductor_me/ab/cab.py", Rank::Beneath),
            ("/usr/lib/python3.12/threading.py", Rank::Beneath),
            ("/v/lib64/python3.11/concurrent/futures/thread.py", Rank::Beneath),
            ("C:\\Python311\\Lib\\threading.py", Rank::Beneath),
            ("C:\\Python311\\Lib\\site-packages\\torch\\nn\\init.py", Rank::Beneath),
            ("C:\\Python311\\Lib\\site-packages\\timm\\layers.py", Rank::Program),
            ("C:\\work\\train.py", Rank::Program),
            ("??", Rank::Native),
            ("aten/src/ATen/native/Linear.cpp", Rank::Native),
        ];
        for (file, expected) in cases {
            assert_eq!(rank(file, "f"), expected, "{file}");
        }
        assert_eq!(rank("", ""), Rank::Nothing);
        assert_eq!(rank("a.cpp", "c10::cuda::CUDACachingAllocator::malloc"), Rank::Machinery);
    }

    #[test]
    fn the_innermost_line_of_the_program_wins() {
        let mut frames = Frames::new();
        let mut frame = |file: &str, function: &str, line| {
            let (file, function) = (frames.text(file), frames.text(function));
            frames.number(Frame { file, function, line })
        };
        let inner = frame("/v/lib/python3.12/site-packages/torch/nn/modules/linear.py", "go", 7);
        let mine = frame("/v/lib/python3.12/site-packages/timm/layers.py", "forward", 12);
        let outer = frame("/home/me/train.py", "main", 90);
        let native = frame("??", "at::native::mm", 0);
        assert_eq!(frame("/home/me/train.py", "main", 90), outer);
        let best = |stack: &[FrameId]| {
            stack.iter().fold(FrameId::default(), |best, frame| frames.better(best, *frame))
        };
        assert_eq!(best(&[native, inner, mine, outer]), mine);
        assert_eq!(best(&[native, inner]), inner);
        assert_eq!(best(&[]), FrameId::default());
        let label = |frame| frames.label(frame, 0);
        assert_eq!(label(mine).as_deref(), Some("timm/layers.py:12 forward"));
        assert_eq!(label(outer).as_deref(), Some("/home/me/train.py:90 main"));
        assert_eq!(label(native).as_deref(), Some("at::native::mm"));
        assert_eq!(label(FrameId::default()), None);
        let note = frames.text("layer 3");
        assert_eq!(frames.label(FrameId::default(), note).as_deref(), Some("layer 3"));
        assert_eq!(
            frames.label(outer, note).as_deref(),
            Some("/home/me/train.py:90 main (layer 3)")
        );
    }
}
