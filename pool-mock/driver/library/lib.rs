//! The functions of the simulated driver, to be loaded under the real one's name: a test puts a link
//! `libcuda.so.1` to it where the loader looks.

pub use pool_mock_driver::*;
