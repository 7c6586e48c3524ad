//! A scene, drawn into a picture.

use core::mem;
use core::num::NonZeroU64;
use core::ops::Range;
use std::collections::HashMap;
use std::sync::mpsc;

use crate::gpu::{create_buffer, wait_for_all};
use crate::scene::{Instance, Model, Object, Uniforms};
use crate::{Gpu, GpuError, Picture, Scene, Slice, Vertex};

const COLOUR: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8UnormSrgb;
const DEPTH: wgpu::TextureFormat = wgpu::TextureFormat::Depth32Float;
const SAMPLES: u32 = 4;

/// How many times something was bound, and what was drawn, in the frames so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// Frames.
    pub frames: u64,
    /// Draws, each of some instances of a mesh.
    pub draws: u64,
    /// Vertex and index buffers that were bound.
    pub buffers_bound: u64,
    /// Groups of uniforms or storage that were made, for buffers that had none.
    pub groups_made: u64,
}

/// Draws scenes into one picture.
#[derive(Debug)]
pub struct Renderer {
    gpu: Gpu,
    target: wgpu::Texture,
    samples: wgpu::TextureView,
    depth: wgpu::TextureView,
    wall: wgpu::RenderPipeline,
    objects: wgpu::RenderPipeline,
    uniforms: Groups,
    storage: Groups,
    draws: Draws,
}

/// The bind groups of one binding: one for each buffer, that of the last frame's.
#[derive(Debug)]
struct Groups {
    layout: wgpu::BindGroupLayout,
    size_bytes: Option<NonZeroU64>,
    by_buffer: HashMap<wgpu::Buffer, wgpu::BindGroup>,
}

#[expect(clippy::mutable_key_type, reason = "a buffer is known by its identity, which stays")]
impl Groups {
    fn new(device: &wgpu::Device, binding: wgpu::BufferBindingType, window: Option<usize>) -> Self {
        let size_bytes = window.and_then(|bytes| NonZeroU64::new(bytes as u64));
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::VERTEX_FRAGMENT,
                ty: wgpu::BindingType::Buffer {
                    ty: binding,
                    has_dynamic_offset: window.is_some(),
                    min_binding_size: None,
                },
                count: None,
            }],
        });
        Self { layout, size_bytes, by_buffer: HashMap::new() }
    }

    /// Groups for the buffers of all slices, and no others: those of old buffers would keep these.
    /// How many are new.
    fn bind<'a>(&mut self, device: &wgpu::Device, slices: impl Iterator<Item = &'a Slice>) -> u64 {
        let mut old = mem::take(&mut self.by_buffer);
        let mut made = 0;
        for Slice { buffer, .. } in slices {
            if self.by_buffer.contains_key(buffer) {
                continue;
            }
            let group = old.remove(buffer).unwrap_or_else(|| {
                made += 1;
                let binding = wgpu::BufferBinding { buffer, offset: 0, size: self.size_bytes };
                device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: None,
                    layout: &self.layout,
                    entries: &[wgpu::BindGroupEntry {
                        binding: 0,
                        resource: wgpu::BindingResource::Buffer(binding),
                    }],
                })
            });
            self.by_buffer.insert(buffer.clone(), group);
        }
        made
    }
}

impl Renderer {
    /// A picture of so many pixels, black.
    #[must_use]
    pub fn new(gpu: &Gpu, width: u32, height: u32) -> Self {
        let device = &gpu.device;
        let texture = |format, sample_count, usage| {
            device.create_texture(&wgpu::TextureDescriptor {
                label: None,
                size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
                mip_level_count: 1,
                sample_count,
                dimension: wgpu::TextureDimension::D2,
                format,
                usage: usage | wgpu::TextureUsages::RENDER_ATTACHMENT,
                view_formats: &[],
            })
        };
        let view =
            |texture: wgpu::Texture| texture.create_view(&wgpu::TextureViewDescriptor::default());
        let none = wgpu::TextureUsages::empty();
        let uniforms =
            Groups::new(device, wgpu::BufferBindingType::Uniform, Some(size_of::<Uniforms>()));
        let array = wgpu::BufferBindingType::Storage { read_only: true };
        let storage = Groups::new(device, array, None);
        let shader = device.create_shader_module(wgpu::include_wgsl!("shader.wgsl"));
        let layouts = [Some(&uniforms.layout), Some(&storage.layout)];
        Self {
            gpu: gpu.clone(),
            target: texture(COLOUR, 1, wgpu::TextureUsages::COPY_SRC),
            samples: view(texture(COLOUR, SAMPLES, none)),
            depth: view(texture(DEPTH, SAMPLES, none)),
            wall: pipeline(device, &shader, ["wall", "night"], &[], &[]),
            objects: pipeline(device, &shader, ["corner", "shade"], &layouts, &[Some(VERTICES)]),
            uniforms,
            storage,
            draws: Draws::default(),
        }
    }

    /// What was drawn so far.
    #[must_use]
    pub fn draws(&self) -> Draws {
        self.draws
    }

    /// Width over height.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "pictures are small")]
    pub fn aspect(&self) -> f32 {
        self.target.width() as f32 / self.target.height() as f32
    }

    /// Records the commands that draw a scene; they are to be submitted with its uploads.
    #[must_use]
    pub fn draw(&mut self, scene: &Scene) -> wgpu::CommandBuffer {
        let device = &self.gpu.device;
        let objects = scene.objects();
        self.draws.groups_made +=
            self.uniforms.bind(device, objects.iter().map(|object| &object.uniforms));
        self.draws.groups_made +=
            self.storage.bind(device, objects.iter().map(|object| &object.instances));
        let label = Some("scene");
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label });
        let target = self.target.create_view(&wgpu::TextureViewDescriptor::default());
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label,
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &self.samples,
                depth_slice: None,
                resolve_target: Some(&target),
                ops: wgpu::Operations {
                    load: wgpu::LoadOp::Clear(wgpu::Color::BLACK),
                    store: wgpu::StoreOp::Discard,
                },
            })],
            depth_stencil_attachment: Some(wgpu::RenderPassDepthStencilAttachment {
                view: &self.depth,
                depth_ops: Some(wgpu::Operations {
                    load: wgpu::LoadOp::Clear(1.0),
                    store: wgpu::StoreOp::Discard,
                }),
                stencil_ops: None,
            }),
            timestamp_writes: None,
            occlusion_query_set: None,
            multiview_mask: None,
        });
        pass.set_pipeline(&self.wall);
        pass.draw(0..3, 0..1);
        pass.set_pipeline(&self.objects);
        let mut bound = Bound::default();
        for object in objects {
            let Object { model, uniforms, instances, moons, .. } = object;
            let group = self.uniforms.by_buffer.get(&uniforms.buffer);
            pass.set_bind_group(0, group, &[uniforms.first(1)]);
            pass.set_bind_group(1, self.storage.by_buffer.get(&instances.buffer), &[]);
            let first = instances.first(size_of::<Instance>() as u64);
            bound.draw(&mut pass, model, first..first + 1);
            if let Some(moon) = scene.moon() {
                bound.draw(&mut pass, moon, first + 1..first + 1 + moons);
            }
        }
        drop(pass);
        self.draws.frames += 1;
        self.draws.draws += bound.draws;
        self.draws.buffers_bound += bound.buffers;
        encoder.finish()
    }

    /// Waits for what is submitted, and copies the picture to the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn read(&self) -> Result<Picture, GpuError> {
        let (width, height) = (self.target.width(), self.target.height());
        let row_bytes = width * 4;
        let padded_bytes = row_bytes.next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let size_bytes = u64::from(padded_bytes) * u64::from(height);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let buffer = create_buffer(&self.gpu.device, "picture", size_bytes, usage, false)?;
        let description = wgpu::CommandEncoderDescriptor { label: Some("picture") };
        let mut encoder = self.gpu.device.create_command_encoder(&description);
        encoder.copy_texture_to_buffer(
            self.target.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &buffer,
                layout: wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(padded_bytes),
                    rows_per_image: None,
                },
            },
            self.target.size(),
        );
        self.gpu.queue.submit([encoder.finish()]);
        let bytes = read_back(&self.gpu, &buffer)?;
        let rows = bytes.chunks(padded_bytes as usize);
        let pixels = rows.flat_map(|row| &row[..row_bytes as usize]).copied().collect();
        Ok(Picture { width, height, pixels })
    }
}

/// The bytes of a buffer that can be mapped for that, once submitted work is done.
///
/// # Errors
///
/// [`GpuError::Invalid`] if it cannot be mapped.
pub fn read_back(gpu: &Gpu, buffer: &wgpu::Buffer) -> Result<Vec<u8>, GpuError> {
    let (send, mapped) = mpsc::channel();
    buffer.map_async(wgpu::MapMode::Read, .., move |result| {
        // Who asked is there until it has the answer.
        let _ = send.send(result);
    });
    wait_for_all(&gpu.device)?;
    let result = mapped.recv().map_err(|_| GpuError::Stuck)?;
    result.map_err(|error| GpuError::Invalid(error.to_string()))?;
    let view = buffer.get_mapped_range(..).map_err(|error| GpuError::Invalid(error.to_string()))?;
    Ok(view.to_vec())
}

/// What is bound in a pass, so that it is not bound again.
#[derive(Default)]
struct Bound<'a> {
    vertices: Option<&'a wgpu::Buffer>,
    indices: Option<&'a wgpu::Buffer>,
    draws: u64,
    buffers: u64,
}

impl<'a> Bound<'a> {
    /// Draws instances of a model. Where buffers are bound already, where its blocks begin tells it
    /// apart.
    fn draw(&mut self, pass: &mut wgpu::RenderPass<'_>, model: &'a Model, instances: Range<u32>) {
        let Model { vertices, indices, index_count } = model;
        if self.vertices.replace(&vertices.buffer) != Some(&vertices.buffer) {
            pass.set_vertex_buffer(0, vertices.buffer.slice(..));
            self.buffers += 1;
        }
        if self.indices.replace(&indices.buffer) != Some(&indices.buffer) {
            pass.set_index_buffer(indices.buffer.slice(..), wgpu::IndexFormat::Uint16);
            self.buffers += 1;
        }
        let index = indices.first(size_of::<u16>() as u64);
        let vertex = vertices.first(size_of::<Vertex>() as u64);
        let vertex = i32::try_from(vertex).unwrap_or(i32::MAX);
        pass.draw_indexed(index..index + index_count, vertex, instances);
        self.draws += 1;
    }
}

const VERTICES: wgpu::VertexBufferLayout<'_> = wgpu::VertexBufferLayout {
    array_stride: size_of::<Vertex>() as u64,
    step_mode: wgpu::VertexStepMode::Vertex,
    attributes: &wgpu::vertex_attr_array![0 => Float32x3, 1 => Float32x3, 2 => Float32x2],
};

/// A pipeline of two functions of the shader. What has no vertices is far behind everything.
fn pipeline(
    device: &wgpu::Device,
    shader: &wgpu::ShaderModule,
    [vertex, fragment]: [&str; 2],
    layouts: &[Option<&wgpu::BindGroupLayout>],
    buffers: &[Option<wgpu::VertexBufferLayout<'_>>],
) -> wgpu::RenderPipeline {
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: layouts,
        immediate_size: 0,
    });
    let options = wgpu::PipelineCompilationOptions::default();
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some(vertex),
        layout: Some(&layout),
        vertex: wgpu::VertexState {
            module: shader,
            entry_point: Some(vertex),
            compilation_options: options.clone(),
            buffers,
        },
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: Some(wgpu::DepthStencilState {
            format: DEPTH,
            depth_write_enabled: Some(!buffers.is_empty()),
            depth_compare: Some(wgpu::CompareFunction::LessEqual),
            stencil: wgpu::StencilState::default(),
            bias: wgpu::DepthBiasState::default(),
        }),
        multisample: wgpu::MultisampleState { count: SAMPLES, ..Default::default() },
        fragment: Some(wgpu::FragmentState {
            module: shader,
            entry_point: Some(fragment),
            compilation_options: options,
            targets: &[Some(COLOUR.into())],
        }),
        multiview_mask: None,
        cache: None,
    })
}
