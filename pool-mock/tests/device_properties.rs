//! The detector against a model of its own kind: sets of what comes before what, without clocks.
//!
//! - Random programs: a use is reported if and only if the model knows an earlier one that
//!   conflicts and does not come before it.
//! - Programs that wait wherever the model says so: nothing is reported, whenever work runs, and
//!   every read finds what it should. Without any one of these waits the use that needed it is
//!   reported.
//! - Graphs: their launches are as the model unrolls them.

use std::collections::BTreeSet;

use pool_core::device::Device;
use pool_mock::device::{
    Access, Owner, Pacing, SimConfig, SimDevice, SimFence, SimRange, SimStream, StreamKind,
    Violation,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Items, by number.
type Set = BTreeSet<usize>;

/// The streams: two own ones, two blocking ones of the program, the legacy default stream.
const STREAMS: usize = 5;
const BLOCKING: [usize; 2] = [2, 3];
const LEGACY: usize = 4;

/// What comes before what.
#[derive(Clone, Default)]
struct Model {
    items: usize,
    /// For each stream all that comes before its next item.
    streams: [Set; STREAMS],
    host: Set,
    uses: Vec<PastUse>,
}

#[derive(Clone)]
struct PastUse {
    item: usize,
    stream: usize,
    bytes: core::ops::Range<u64>,
    access: Access,
}

impl Model {
    /// What comes before the next item of a stream.
    fn before(&self, stream: usize) -> Set {
        let mut before = &self.streams[stream] | &self.host;
        if stream == LEGACY {
            for other in BLOCKING {
                before.extend(&self.streams[other]);
            }
        } else if BLOCKING.contains(&stream) {
            before.extend(&self.streams[LEGACY]);
        }
        before
    }

    /// Queues an item after `more`; gives it with all that comes before it.
    fn queue(&mut self, stream: usize, more: &Set) -> Set {
        let mut through = &self.before(stream) | more;
        through.insert(self.items);
        self.items += 1;
        self.streams[stream].clone_from(&through);
        through
    }

    /// The earlier uses that conflict with one and do not come before it.
    fn unordered(
        &self,
        stream: usize,
        bytes: &core::ops::Range<u64>,
        access: Access,
    ) -> Vec<usize> {
        let before = self.before(stream);
        let mut unordered = Vec::new();
        for past in &self.uses {
            let common = past.bytes.start < bytes.end && bytes.start < past.bytes.end;
            let conflict = past.access == Access::Write || access == Access::Write;
            if common && conflict && !before.contains(&past.item) {
                unordered.push(past.stream);
            }
        }
        unordered
    }

    fn add_use(&mut self, stream: usize, bytes: core::ops::Range<u64>, access: Access) {
        let item = self.items;
        self.queue(stream, &Set::new());
        self.uses.push(PastUse { item, stream, bytes, access });
    }
}

struct Setting {
    device: SimDevice,
    range: SimRange,
    streams: [SimStream; STREAMS],
    model: Model,
}

impl Setting {
    fn new(config: SimConfig) -> Self {
        let device = SimDevice::new(config);
        let range = device.allocate(1 << 20).expect("there is room");
        let own = || device.create_stream().expect("nothing fails");
        let blocking = || device.open_stream(StreamKind::Blocking);
        let streams = [own(), own(), blocking(), blocking(), device.legacy_stream()];
        Self { device, range, streams, model: Model::default() }
    }

    fn queue_use(
        &mut self,
        stream: usize,
        bytes: core::ops::Range<u64>,
        owner: Owner,
        access: Access,
    ) {
        let size = bytes.end - bytes.start;
        self.device
            .queue_use(self.streams[stream], &self.range, bytes.start, size, owner, access)
            .expect("nothing fails");
        self.model.add_use(stream, bytes, access);
    }

    fn record(&mut self, stream: usize) -> (SimFence, Set) {
        let fence = self.device.record(&self.streams[stream]).expect("nothing fails");
        (fence, self.model.queue(stream, &Set::new()))
    }

    fn wait(&mut self, stream: usize, fence: &(SimFence, Set)) {
        self.device.wait(&self.streams[stream], &fence.0).expect("nothing fails");
        self.model.queue(stream, &fence.1);
    }

    fn host_wait(&mut self, fence: &(SimFence, Set)) {
        self.device.wait_on_host(&fence.0).expect("nothing fails");
        self.model.host.extend(&fence.1);
    }

    fn query(&mut self, fence: &(SimFence, Set)) {
        if self.device.is_done(&fence.0).expect("nothing fails") {
            self.model.host.extend(&fence.1);
        }
    }

    /// Whether a race was reported since the last look; whatever else was is wrong.
    fn raced(&self) -> bool {
        let violations = self.device.take_violations();
        assert!(violations.iter().all(Violation::is_race), "{violations:?}");
        !violations.is_empty()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Use { stream: usize, start: u64, size: u64, write: bool },
    Record(usize),
    Wait(usize, usize),
    HostWait(usize),
    Query(usize),
    Run(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || 0..STREAMS;
    prop_oneof![
        6 => (stream(), 0..12_u64, 1..6_u64, any::<bool>())
            .prop_map(|(stream, start, size, write)| Step::Use { stream, start, size, write }),
        3 => stream().prop_map(Step::Record),
        3 => (stream(), any::<usize>()).prop_map(|(stream, fence)| Step::Wait(stream, fence)),
        1 => any::<usize>().prop_map(Step::HostWait),
        1 => any::<usize>().prop_map(Step::Query),
        1 => any::<u32>().prop_map(Step::Run),
    ]
}

fn pacing() -> impl Strategy<Value = Pacing> {
    prop_oneof![
        Just(Pacing::Eager),
        Just(Pacing::Idle),
        (0..5_u64).prop_map(Pacing::Lag),
        any::<u64>().prop_map(Pacing::Random),
    ]
}

/// A step of a program that orders itself: a new allocation in a slot, or a use of it.
#[derive(Clone, Debug)]
struct Work {
    slot: u64,
    stream: usize,
    kind: Kind,
    /// How an order that lacks is made.
    by_host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    New,
    Read,
    Write,
}

fn work() -> impl Strategy<Value = Work> {
    let kind = prop_oneof![1 => Just(Kind::New), 1 => Just(Kind::Read), 1 => Just(Kind::Write)];
    (0..4_u64, 0..STREAMS, kind, prop::bool::weighted(0.1))
        .prop_map(|(slot, stream, kind, by_host)| Work { slot, stream, kind, by_host })
}

/// How many waits a program needed, and, if one was left out, what came of it.
struct Outcome {
    waits: usize,
    /// Whether the use that lacked a wait was reported.
    reported: Option<bool>,
}

/// Runs a program that waits wherever it must, but for the last wait of the `leave_out`-th use
/// that needs any.
fn run_ordered(program: &[Work], pacing: Pacing, leave_out: Option<usize>) -> Outcome {
    let mut setting = Setting::new(SimConfig::new().pacing(pacing).same_owner(true));
    let mut owners = [None::<Owner>; 4];
    let mut waits = 0;
    for work in program {
        let owner = &mut owners[usize::try_from(work.slot).expect("there are four")];
        let kind = if owner.is_none() { Kind::New } else { work.kind };
        if kind == Kind::New {
            *owner = Some(setting.device.new_owner());
        }
        let owner = owner.expect("it was just made");
        let access = if kind == Kind::Read { Access::Read } else { Access::Write };
        let bytes = work.slot * 1000..work.slot * 1000 + 1000;
        let mut left_out = false;
        while let Some(&from) = setting.model.unordered(work.stream, &bytes, access).first() {
            let mut then = setting.model.clone();
            let through = then.queue(from, &Set::new());
            then.host.extend(&through);
            let is_last = then.unordered(work.stream, &bytes, access).is_empty();
            if is_last {
                waits += 1;
                if leave_out == Some(waits - 1) {
                    left_out = true;
                    break;
                }
            }
            let fence = setting.record(from);
            if work.by_host {
                setting.host_wait(&fence);
            } else {
                setting.wait(work.stream, &fence);
            }
            setting.device.discard(fence.0);
        }
        setting.queue_use(work.stream, bytes, owner, access);
        if left_out {
            let violations = setting.device.take_violations();
            return Outcome { waits, reported: Some(violations.iter().any(Violation::is_race)) };
        }
    }
    setting.device.synchronize().expect("nothing fails");
    setting.device.assert_clean();
    Outcome { waits, reported: None }
}

/// A step of what is captured on three streams, the first of which is where it began.
#[derive(Clone, Debug)]
enum Captured {
    Use { stream: usize, start: u64, size: u64, write: bool },
    Wait { from: usize, stream: usize },
}

fn captured() -> impl Strategy<Value = Captured> {
    prop_oneof![
        (0..3_usize, 0..12_u64, 1..6_u64, any::<bool>())
            .prop_map(|(stream, start, size, write)| Captured::Use { stream, start, size, write }),
        (0..3_usize, 0..3_usize).prop_map(|(from, stream)| Captured::Wait { from, stream }),
    ]
}

/// A use in a graph, and which ones of it come before.
struct Node {
    before: Set,
    bytes: core::ops::Range<u64>,
    access: Access,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn races_are_those_of_the_model(
        program in vec(step(), 1..60),
        pacing in pacing(),
    ) {
        // Every use has an owner of its own, so that any two count; and so no marks.
        let mut setting = Setting::new(SimConfig::new().pacing(pacing).marks(false));
        let mut fences: Vec<(SimFence, Set)> = Vec::new();
        for step in program {
            match step {
                Step::Use { stream, start, size, write } => {
                    let access = if write { Access::Write } else { Access::Read };
                    let bytes = start..start + size;
                    let expected = !setting.model.unordered(stream, &bytes, access).is_empty();
                    let owner = setting.device.new_owner();
                    setting.queue_use(stream, bytes, owner, access);
                    prop_assert_eq!(setting.raced(), expected);
                }
                Step::Record(stream) => {
                    let fence = setting.record(stream);
                    fences.push(fence);
                }
                Step::Run(choice) => {
                    setting.device.step(choice);
                }
                Step::Wait(_, at) | Step::HostWait(at) | Step::Query(at) if !fences.is_empty() => {
                    let at = at % fences.len();
                    let fence = fences.swap_remove(at);
                    match step {
                        Step::Wait(stream, _) => setting.wait(stream, &fence),
                        Step::HostWait(_) => setting.host_wait(&fence),
                        _ => setting.query(&fence),
                    }
                    fences.push(fence);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn programs_that_wait_are_silent_and_no_wait_can_be_left_out(
        program in vec(work(), 2..50),
        pacing in pacing(),
        left_out in any::<prop::sample::Index>(),
    ) {
        let whole = run_ordered(&program, pacing, None);
        prop_assert_eq!(whole.reported, None);
        if whole.waits > 0 {
            let broken = run_ordered(&program, pacing, Some(left_out.index(whole.waits)));
            prop_assert_eq!(broken.reported, Some(true));
        }
    }

    #[test]
    fn launches_race_as_their_nodes_do(
        program in vec(captured(), 1..30),
        launches in vec((0..2_usize, any::<bool>()), 1..4),
        pacing in pacing(),
    ) {
        let mut setting = Setting::new(SimConfig::new().pacing(pacing).marks(false));
        let more = setting.device.create_stream().expect("nothing fails");
        let streams = [setting.streams[0], setting.streams[1], more];
        // What comes before the next node of each stream; `None`: it has not joined.
        let mut known = [Some(Set::new()), None, None];
        let mut nodes: Vec<Node> = Vec::new();
        setting.device.begin_capture(streams[0]).expect("nothing fails");
        let wait = |known: &mut [Option<Set>; 3], from: usize, stream: usize| {
            let Some(before) = known[from].clone() else { return };
            let fence = setting.device.record(&streams[from]).expect("nothing fails");
            setting.device.wait(&streams[stream], &fence).expect("nothing fails");
            setting.device.discard(fence);
            known[stream].get_or_insert_default().extend(before);
        };
        for step in program {
            match step {
                Captured::Wait { from, stream } => wait(&mut known, from, stream),
                Captured::Use { stream, start, size, write } => {
                    let Some(before) = &mut known[stream] else { continue };
                    let access = if write { Access::Write } else { Access::Read };
                    let owner = setting.device.new_owner();
                    setting
                        .device
                        .queue_use(streams[stream], &setting.range, start, size, owner, access)
                        .expect("nothing fails");
                    let node = Node { before: before.clone(), bytes: start..start + size, access };
                    before.insert(nodes.len());
                    nodes.push(node);
                }
            }
        }
        wait(&mut known, 1, 0);
        wait(&mut known, 2, 0);
        let graph = setting.device.end_capture(streams[0]).expect("all has come back");
        prop_assert!(!setting.raced(), "nothing has run");

        let mut last = Set::new();
        for (stream, then_use) in launches {
            setting.device.launch_graph(graph, streams[stream]).expect("nothing fails");
            let model = &mut setting.model;
            let start = model.queue(stream, &last);
            let mut expected = false;
            let mut through: Vec<Set> = Vec::new();
            let mut end = start.clone();
            for node in &nodes {
                let mut before = start.clone();
                node.before.iter().for_each(|&node| before.extend(&through[node]));
                expected |= model.uses.iter().any(|past| {
                    past.bytes.start < node.bytes.end
                        && node.bytes.start < past.bytes.end
                        && (past.access == Access::Write || node.access == Access::Write)
                        && !before.contains(&past.item)
                });
                let item = model.items;
                model.items += 1;
                before.insert(item);
                end.extend(&before);
                through.push(before);
                let (bytes, access) = (node.bytes.clone(), node.access);
                model.uses.push(PastUse { item, stream, bytes, access });
            }
            last = model.queue(stream, &end);
            // An owner conflicts with itself in no launch: what the model has of one node in two
            // launches is in order.
            prop_assert_eq!(setting.raced(), expected);
            if then_use {
                let bytes = 3..9;
                let other = 1 - stream;
                let expected = !setting.model.unordered(other, &bytes, Access::Write).is_empty();
                let owner = setting.device.new_owner();
                setting.queue_use(other, bytes, owner, Access::Write);
                prop_assert_eq!(setting.raced(), expected);
            }
        }
        setting.device.synchronize().expect("nothing fails");
        prop_assert!(setting.device.is_idle());
    }
}
