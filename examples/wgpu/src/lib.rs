//! Buffers of `wgpu`, cut from pools, and a scene that is drawn with them.
//!
//! A [`wgpu::Buffer`] for each mesh, each object's uniforms and each upload costs a call of the
//! driver and a tracked resource. Here a buffer is an arena, and objects have slices of it.
//!
//! | module | its one job |
//! | --- | --- |
//! | `gpu` | [`Gpu`]: an adapter, opened, with errors that are seen |
//! | `usage` | [`Usage`]: what a buffer is for, and which offsets that allows |
//! | `memory` | [`Memory`]: the device under memory that only the queue writes |
//! | `buffers` | [`Buffers`]: the pool of one usage; [`Slice`]: a block of it |
//! | `staging` | [`Staging`]: the device under memory that the host writes |
//! | `upload` | [`Upload`]: writes of the host, on their way to buffers |
//! | `store` | [`Store`]: what a scene needs of buffers; pooled, or one buffer each |
//! | `mesh`, `scene`, `renderer`, `picture` | what is drawn, how, and into which file |
//!
//! # Who may write memory, and when
//!
//! `wgpu` has one queue, which runs in order. So memory that only the queue reads and writes has a
//! [device without fences](pool_core::device::Capabilities::FENCES): what is freed behind the work
//! that used it serves again at once, without a wait. *Behind* means once that work is submitted:
//! commands that are only recorded have no place in the queue yet, and an upload that is submitted
//! with them runs first. [`Pooled`] therefore frees what a scene lets go of after the next submit.
//!
//! The host does not write in the queue's order, but at once. Memory that it writes is given out
//! [without a stream](pool_core::Pool::allocate), which makes it clean, and freed on the queue: it
//! rests until the host has seen the submission done that read it. See [`Upload`].

mod buffers;
mod gpu;
mod memory;
mod mesh;
mod picture;
mod renderer;
mod scene;
mod staging;
mod store;
mod upload;
mod usage;

pub use buffers::{Buffers, Slice};
pub use gpu::{Gpu, GpuError, OpenError};
pub use memory::Memory;
pub use mesh::{Mesh, Shape, Vertex};
pub use picture::Picture;
pub use renderer::{Draws, Renderer, read_back};
pub use scene::Scene;
pub use staging::{Chunk, Done, Row, Staging};
pub use store::{Plain, Pooled, Store, StoreError};
pub use upload::{Upload, UploadError, Uploads};
pub use usage::Usage;
