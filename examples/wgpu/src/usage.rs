//! What a buffer is for, and which offsets that allows.

use crate::Vertex;

/// What the buffers of a pool are for. Each has one usage: the driver is told it when the buffer is
/// made, and `wgpu` orders work by whole buffers, so that a copy into one that is also drawn from
/// would be waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// Vertices.
    Vertex,
    /// Indices of vertices, of 16 or 32 bits.
    Index,
    /// Uniforms, bound with a dynamic offset.
    Uniform,
    /// Arrays that shaders read.
    Storage,
}

impl Usage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Vertex, Self::Index, Self::Uniform, Self::Storage];

    /// Of what the offset and the size of each block are a multiple: a power of two.
    ///
    /// | usage | multiple | so that |
    /// | --- | --- | --- |
    /// | vertex | a vertex: 32 | a buffer is bound once, and a draw names its first vertex; `wgpu` asks for 4 |
    /// | index | 16, the least of a pool | a buffer is bound once, and a draw names its first index; `wgpu` asks for an index |
    /// | uniform | [`min_uniform_buffer_offset_alignment`](wgpu::Limits) | it is a dynamic offset |
    /// | storage | [`min_storage_buffer_offset_alignment`](wgpu::Limits) | it can be bound by itself |
    ///
    /// All are multiples of 4, [`wgpu::COPY_BUFFER_ALIGNMENT`], so that every block can be copied into
    /// and its last bytes filled up. What has to lie more strictly asks for it in its
    /// [request](pool_core::Request::align_bytes).
    ///
    /// # Example
    ///
    /// ```
    /// use graphics::Usage;
    ///
    /// assert_eq!(Usage::Uniform.granule_bytes(&wgpu::Limits::default()), 256);
    /// ```
    #[must_use]
    pub fn granule_bytes(self, limits: &wgpu::Limits) -> u64 {
        match self {
            Self::Vertex => const { size_of::<Vertex>() as u64 },
            Self::Index => 16,
            Self::Uniform => u64::from(limits.min_uniform_buffer_offset_alignment).max(16),
            Self::Storage => u64::from(limits.min_storage_buffer_offset_alignment).max(16),
        }
    }

    /// The least bytes of a buffer: of meshes there are more than of all else.
    #[must_use]
    pub(crate) fn arena_bytes(self) -> u64 {
        match self {
            Self::Vertex => 8 << 20,
            Self::Index => 4 << 20,
            Self::Uniform | Self::Storage => 2 << 20,
        }
    }

    /// What `wgpu` has to know of a buffer: also that bytes are copied into it and out of it.
    #[must_use]
    pub(crate) fn flags(self) -> wgpu::BufferUsages {
        let own = match self {
            Self::Vertex => wgpu::BufferUsages::VERTEX,
            Self::Index => wgpu::BufferUsages::INDEX,
            Self::Uniform => wgpu::BufferUsages::UNIFORM,
            Self::Storage => wgpu::BufferUsages::STORAGE,
        };
        own | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC
    }

    /// Its name, for people and debuggers.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vertex => "vertices",
            Self::Index => "indices",
            Self::Uniform => "uniforms",
            Self::Storage => "storage",
        }
    }
}
