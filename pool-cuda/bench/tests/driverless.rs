//! The program as a person meets it where there is no driver.

use std::process::Command;

use pool_cuda::{CudaError, Driver};

#[test]
fn without_a_driver_it_starts_and_says_so() {
    let Err(CudaError::NoDriver { .. }) = Driver::system() else {
        println!("skipped: there is a driver here");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_pool-cuda-bench")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("pool-cuda-bench: no CUDA driver on this machine: "), "{said}");
}

#[test]
fn a_wrong_command_line_is_exit_code_two() {
    for arguments in [["--threads", "0"], ["--only", "everything"], ["--device", "-1"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_pool-cuda-bench")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
