//! Where slices lie.

mod support;

use graphics::{Buffers, Usage};
use pool_core::{PoolError, Request};

#[test]
fn every_slice_begins_where_its_usage_allows_it() {
    let Some(gpu) = support::gpu() else { return };
    let limits = gpu.device.limits();
    for usage in Usage::ALL {
        let least = match usage {
            Usage::Vertex => 32,
            Usage::Index => 4,
            Usage::Uniform => u64::from(limits.min_uniform_buffer_offset_alignment),
            Usage::Storage => u64::from(limits.min_storage_buffer_offset_alignment),
        };
        let buffers = Buffers::new(&gpu, usage).expect("a pool");
        let mut slices: Vec<_> = (1..400)
            .map(|size| (buffers.allocate(size * 37).expect("memory"), size * 37))
            .collect();
        for (slice, size) in &slices {
            assert!(slice.offset_bytes.is_multiple_of(least), "{usage:?}");
            assert!(slice.size_bytes >= *size && slice.size_bytes.is_multiple_of(4), "{usage:?}");
            assert!(slice.offset_bytes + slice.size_bytes <= slice.buffer.size());
        }
        slices.sort_by_key(|(slice, _)| slice.offset_bytes);
        for pair in slices.windows(2) {
            let [(one, _), (next, _)] = pair else { unreachable!() };
            assert!(
                one.buffer != next.buffer || one.offset_bytes + one.size_bytes <= next.offset_bytes,
                "{usage:?}"
            );
        }
        let strict = buffers.allocate(Request::new(100).align_bytes(4096)).expect("memory");
        assert!(strict.offset_bytes.is_multiple_of(4096));
    }
}

#[test]
fn what_the_device_does_not_allow_is_refused_and_less_is_not() {
    let Some(gpu) = support::gpu() else { return };
    let buffers = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let most = gpu.device.limits().max_buffer_size;
    let refused = buffers.allocate(most + 1).expect_err("larger than a buffer");
    assert!(matches!(refused, PoolError::OutOfMemory { .. }), "{refused}");
    assert!(refused.to_string().contains("are allowed"), "{refused}");
    buffers.allocate(4096).expect("less");
}
