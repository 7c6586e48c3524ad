//! Twelve recorded programs on pools that are too small for them: each refusal says what would have
//! served, in words and as settings, and with these the request is served.

use pool_core::policy::{Growth, Pages, Reuse, Settings, Way};
use pool_core::{Placement, Pool, PoolError, Remedy, Shortage};
use pool_mock::Trace;
use pool_mock::device::{SimConfig, SimDevice};
use pool_mock::replay::{Deed, Pooled, Program};

/// Rounds of advice after which a program must run to its end.
const MOST_ROUNDS: u32 = 12;

const MIB: u64 = 1 << 20;

fn program(name: &str) -> Program {
    let path = format!("{}/../examples/traces/{name}.csv.gz", env!("CARGO_MANIFEST_DIR"));
    Program::of(&Trace::open(path.as_ref()).expect("a trace of the repository"))
}

/// How far a program came: all of it, or up to a call that was refused, and why.
fn play(program: &Program, settings: Settings) -> Result<(), Box<(usize, Shortage)>> {
    let device = SimDevice::new(SimConfig::new().memory_bytes(1 << 40).detector(false));
    let pool = Pool::new(device, settings.into()).expect("settings of a pool");
    let mut pooled = Pooled::new(&pool, program).expect("streams");
    for (place, call) in program.calls().iter().enumerate() {
        if pooled.call(call.deed).expect("only memory can lack") {
            continue;
        }
        let Deed::Allocate { size_bytes, .. } = call.deed else {
            unreachable!("only requests are refused")
        };
        let again = pool.allocate(size_bytes);
        let Err(PoolError::OutOfMemory { shortage, .. }) = again else {
            // A call that names no stream may be served where the stream's is not.
            let shortage = pool.explain(pool_core::On::Nothing, size_bytes).expect("a stream");
            return Err(Box::new((place, shortage)));
        };
        return Err(Box::new((place, *shortage)));
    }
    Ok(())
}

/// Follows advice until the program runs to its end: each time it comes further, by settings that its
/// words name.
fn follow(name: &str, program: &Program, too_small: Settings, first: Remedy, word: &str) {
    let mut settings = too_small;
    let mut before = None;
    for round in 0..MOST_ROUNDS {
        let Err(refused) = play(program, settings) else {
            assert!(round > 0, "{name}: nothing was refused");
            println!("{name}: runs to its end after {round} rounds");
            return;
        };
        let (place, shortage) = *refused;
        let text = shortage.to_string();
        println!("{name}: call {place} is refused: {text}");
        if round == 0 {
            assert_eq!(shortage.remedy, first, "{name}: {text}");
            assert!(text.contains(word), "{name}: {text}");
        }
        assert!(before.is_none_or(|before| place > before), "{name}: no further by the advice");
        before = Some(place);
        let advised =
            shortage.advised(&settings).unwrap_or_else(|| panic!("{name}: no advice: {text}"));
        assert_ne!(advised, settings, "{name}: {text}");
        settings = advised;
    }
    panic!("{name}: still refused after {MOST_ROUNDS} rounds");
}

/// A limit of so many thousandths of the most that is live at once.
fn limited(program: &Program, per_mille: u64) -> Settings {
    let peak_bytes = program.peak_live_bytes(256);
    Settings { limit_bytes: Some(peak_bytes / 1000 * per_mille), ..Settings::new() }
}

#[test]
fn a_limit_below_what_is_live_is_to_be_raised() {
    for (name, per_mille) in [("gpt2_train", 950), ("multi_stream", 500)] {
        let program = program(name);
        follow(
            name,
            &program,
            limited(&program, per_mille),
            Remedy::RaiseLimit,
            "raise the limit of",
        );
    }
}

#[test]
fn enough_that_lies_in_pieces_is_put_together_by_pages() {
    for (name, per_mille) in
        [("llama_generate", 1015), ("maskrcnn_train", 1040), ("gnn_train", 1120)]
    {
        let program = program(name);
        follow(name, &program, limited(&program, per_mille), Remedy::Defragment, "Settings::pages");
    }
}

/// Less than what is live at once is no matter of pieces alone: one piece of advice leads to the next.
#[test]
fn what_pages_do_not_give_a_limit_does() {
    for (name, per_mille) in [("llama_finetune", 900), ("etl_rmm", 700), ("resnet_train", 900)] {
        let program = program(name);
        follow(name, &program, limited(&program, per_mille), Remedy::Defragment, "Settings::pages");
    }
}

#[test]
fn buddies_that_waste_too_much_are_given_up_for_best_fit() {
    for (name, per_mille) in [("resnet_train", 1250), ("etl_rmm", 1450)] {
        let program = program(name);
        let reuse = Reuse { placement: Placement::Buddy, ..Reuse::new() };
        let too_small = Settings { reuse, ..limited(&program, per_mille) };
        follow(name, &program, too_small, Remedy::Defragment, "Reuse::placement");
    }
}

#[test]
fn a_pool_that_may_not_grow_is_let_to() {
    let growth = Growth { order: [Way::Never; 3], ..Growth::new() };
    let program = program("gpt2_train");
    let too_small = Settings { growth, ..Settings::new() };
    follow("gpt2_train", &program, too_small, Remedy::AllowGrowth, "Growth::order");
}

#[test]
fn a_space_of_offsets_that_is_too_small_is_made_larger() {
    let program = program("resnet_train");
    let address_bytes = Some(program.peak_live_bytes(256) / 2);
    let too_small = Settings { address_bytes, ..Settings::new() };
    follow("resnet_train", &program, too_small, Remedy::MoreAddresses, "address_bytes");
}

#[test]
fn what_is_advised_changes_one_setting() {
    let program = program("gnn_train");
    let had = limited(&program, 1120);
    let (_, shortage) = *play(&program, had).expect_err("too small");
    let advised = shortage.advised(&had).expect("pages");
    assert_eq!(advised, Settings { pages: Some(Pages::default()), ..had });
    assert!(shortage.wanted_bytes % MIB == 0 && shortage.wanted_bytes > shortage.reserved_bytes);
}
