//! The replay tool's choice of a device.

use std::process::{Command, Output};

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).args(arguments).output().unwrap()
}

/// What a command line that is refused is told.
fn refusal(arguments: &[&str]) -> String {
    let output = replay(&[&["--pool"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_simulated_device_is_what_there_is_without_a_choice() {
    for choice in [&[][..], &["--device", "sim"]] {
        let output = replay(&[&["--pool", "--json", "--pacing", "idle"], choice].concat());
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains(r#""pacing":"idle""#));
    }
}

#[test]
fn what_only_one_device_has_is_refused_for_the_other() {
    for option in [&["--pacing", "idle"][..], &["--in-place"], &["--advise"]] {
        let said = refusal(&[&["--device", "cuda:1"], option].concat());
        let expected = format!("{}: only with --device sim", option[0]);
        assert!(said.contains(&expected), "{said}");
    }
    assert!(refusal(&["--work", "false"]).contains("--work: only with --device cuda"));
    for odd in ["gpu", "cuda:", "cuda:-1", "cuda:x", "sim:1"] {
        assert!(refusal(&["--device", odd]).contains("sim, cuda or cuda:N"), "{odd}");
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn without_the_feature_there_is_no_cuda() {
    let said = refusal(&["--device", "cuda"]);
    assert!(said.contains("only if the program is built with --features cuda"), "{said}");
}

#[cfg(feature = "cuda")]
#[test]
fn without_a_driver_it_starts_and_says_so() {
    let Err(pool_cuda::CudaError::NoDriver { .. }) = pool_cuda::Driver::system() else {
        println!("skipped: there is a driver here");
        return;
    };
    for more in [&[][..], &["--work", "false"], &["--pipeline", "--threads", "2"]] {
        let output = replay(&[&["--pool", "--device", "cuda"], more].concat());
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        assert!(output.stdout.is_empty(), "{more:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("replay: no CUDA driver on this machine: "), "{said}");
    }
}
