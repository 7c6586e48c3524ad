//! Objects that come and go.

use core::f32::consts::TAU;
use core::mem;

use bytemuck::{Pod, Zeroable};
use fastrand::Rng;
use glam::camera::rh::{proj, view};
use glam::{Mat4, Quat, Vec3, Vec4};

use crate::{Mesh, Shape, Slice, Store, StoreError, Usage};

/// The distance between two places.
const SPACING: f32 = 2.5;

/// The angle that the camera sees from bottom to top.
const VIEW: f32 = 0.5;

/// What the shader has of an object, as a uniform.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Uniforms {
    /// From the world to the picture.
    clip: Mat4,
    /// How the mesh is turned.
    turn: Mat4,
    colour: Vec4,
    /// Where it is, and how far its moons have gone around.
    place: Vec4,
    /// From where it is seen.
    eye: Vec4,
}

/// An object itself, or one of its moons: an element of its array in storage.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Instance {
    offset: Vec3,
    scale: f32,
    /// How much of the colour is white.
    pale: f32,
    /// By what angle it is turned further.
    twist: f32,
    rest: [f32; 2],
}

/// A mesh in memory.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) vertices: Slice,
    pub(crate) indices: Slice,
    pub(crate) index_count: u32,
}

/// A mesh with moons around it.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) model: Model,
    pub(crate) uniforms: Slice,
    /// Itself first, then the moons.
    pub(crate) instances: Slice,
    pub(crate) moons: u32,
    axis: Vec3,
    angle: f32,
}

/// A wall of places, an object at each.
///
/// # Example
///
/// ```
/// # let Ok(gpu) = graphics::Gpu::open() else { return Ok(()) };
/// use graphics::{Pooled, Renderer, Scene, Store};
///
/// let mut store = Pooled::new(&gpu, None)?;
/// let mut renderer = Renderer::new(&gpu, 64, 64);
/// let mut scene = Scene::new(2, 2, 7);
/// for _ in 0..3 {
///     scene.step(&mut store, 1, 1.0)?;
///     store.submit(Some(renderer.draw(&scene)))?;
/// }
/// assert_eq!(scene.made(), 4 + 2);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scene {
    columns: u16,
    rows: u16,
    objects: Vec<Object>,
    /// The mesh of all moons, from the first frame on.
    moon: Option<Model>,
    rng: Rng,
    frame: u16,
    made: u64,
}

impl Scene {
    /// A wall with nothing on it yet.
    #[must_use]
    pub fn new(columns: u16, rows: u16, seed: u64) -> Self {
        let rng = Rng::with_seed(seed);
        Self { columns, rows, objects: Vec::new(), moon: None, rng, frame: 0, made: 0 }
    }

    /// Objects made so far.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Makes the next frame: the first fills the wall, each further one puts new objects in the place
    /// of `changes` others. All uniforms are written. `aspect` is the picture's width over its height.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn step(
        &mut self,
        store: &mut impl Store,
        changes: usize,
        aspect: f32,
    ) -> Result<(), StoreError> {
        if self.moon.is_none() {
            self.moon = Some(Model::new(store, Shape::Sphere, 12)?);
        }
        if self.objects.is_empty() {
            for _ in 0..self.columns * self.rows {
                let object = self.make(store)?;
                self.objects.push(object);
            }
        } else {
            for _ in 0..changes {
                // The new one first, so that the two are not the same memory by chance.
                let new = self.make(store)?;
                let place = self.rng.usize(..self.objects.len());
                mem::replace(&mut self.objects[place], new).free(store)?;
            }
        }
        let (clip, eye) = self.camera(aspect);
        for (index, object) in (0..).zip(&self.objects) {
            let uniforms = self.uniforms(object, index, clip, eye);
            store.write(&object.uniforms, bytemuck::bytes_of(&uniforms))?;
        }
        self.frame += 1;
        Ok(())
    }

    /// Frees all that it has.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn clear(&mut self, store: &mut impl Store) -> Result<(), StoreError> {
        self.moon.take().map_or(Ok(()), |moon| moon.free(store))?;
        self.objects.drain(..).try_for_each(|object| object.free(store))
    }

    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }

    pub(crate) fn moon(&self) -> Option<&Model> {
        self.moon.as_ref()
    }

    fn make(&mut self, store: &mut impl Store) -> Result<Object, StoreError> {
        let rng = &mut self.rng;
        let shape = Shape::ALL[rng.usize(..Shape::ALL.len())];
        let moons = rng.u8(3..=12);
        let itself = Instance::new(Vec3::ZERO, 0.8, 0.0, 0.0);
        let moon = |moon: u8| {
            let around = TAU * f32::from(moon) / f32::from(moons);
            let offset = Vec3::new(around.cos(), around.sin(), 0.35 * (2.0 * around).sin());
            Instance::new(offset, 0.05 + 0.07 * rng.f32(), 0.6, TAU * rng.f32())
        };
        let instances: Vec<Instance> = [itself].into_iter().chain((0..moons).map(moon)).collect();
        let axis = Vec3::new(rng.f32() - 0.5, rng.f32() + 0.3, rng.f32() - 0.5).normalize();
        self.made += 1;
        Ok(Object {
            model: Model::new(store, shape, rng.u16(24..80))?,
            uniforms: store.allocate(Usage::Uniform, size_of::<Uniforms>() as u64)?,
            instances: put(store, Usage::Storage, &instances)?,
            moons: moons.into(),
            axis,
            angle: TAU * rng.f32(),
        })
    }

    /// A camera that sees all of the wall, from a little below.
    fn camera(&self, aspect: f32) -> (Mat4, Vec3) {
        let (width, height) = (f32::from(self.columns), f32::from(self.rows));
        let half = (SPACING / 2.0) * height.max(width / aspect);
        let distance = half / (VIEW / 2.0).tan() + 1.0;
        let eye = Vec3::new(0.0, -0.12 * distance, distance);
        let view = view::look_at_mat4(eye, Vec3::ZERO, Vec3::Y);
        let lens = proj::directx::perspective(VIEW, aspect, 1.0, 2.0 * distance);
        (lens * view, eye)
    }

    fn uniforms(&self, object: &Object, index: u16, clip: Mat4, eye: Vec3) -> Uniforms {
        let (column, row) = (f32::from(index % self.columns), f32::from(index / self.columns));
        let (columns, rows) = (f32::from(self.columns), f32::from(self.rows));
        let middle = |index: f32, count: f32| (index - (count - 1.0) / 2.0) * SPACING;
        let time = f32::from(self.frame) * 0.05;
        let turn = Quat::from_axis_angle(object.axis, object.angle + time);
        Uniforms {
            clip,
            turn: Mat4::from_quat(turn),
            colour: colour(0.62 * column / columns + 0.3 * row / rows).extend(1.0),
            place: Vec3::new(middle(column, columns), -middle(row, rows), 0.0)
                .extend(object.angle + 0.7 * time),
            eye: eye.extend(1.0),
        }
    }
}

impl Instance {
    fn new(offset: Vec3, scale: f32, pale: f32, twist: f32) -> Self {
        Self { offset, scale, pale, twist, rest: [0.0; 2] }
    }
}

impl Model {
    fn new(store: &mut impl Store, shape: Shape, detail: u16) -> Result<Self, StoreError> {
        let mesh = Mesh::new(shape, detail);
        Ok(Self {
            vertices: put(store, Usage::Vertex, &mesh.vertices)?,
            indices: put(store, Usage::Index, &mesh.indices)?,
            index_count: u32::try_from(mesh.indices.len()).unwrap_or(u32::MAX),
        })
    }

    fn free(self, store: &mut impl Store) -> Result<(), StoreError> {
        store.free(self.vertices)?;
        store.free(self.indices)
    }
}

impl Object {
    fn free(self, store: &mut impl Store) -> Result<(), StoreError> {
        self.model.free(store)?;
        store.free(self.uniforms)?;
        store.free(self.instances)
    }
}

/// Elements in memory of their own.
fn put<T: Pod>(store: &mut impl Store, usage: Usage, elements: &[T]) -> Result<Slice, StoreError> {
    let bytes = bytemuck::cast_slice(elements);
    let slice = store.allocate(usage, bytes.len() as u64)?;
    store.write(&slice, bytes)?;
    Ok(slice)
}

/// A colour of the wheel, from 0 to 1, not too bright.
fn colour(wheel: f32) -> Vec3 {
    let wave = |shift: f32| 0.5 + 0.45 * (TAU * (wheel + shift)).cos();
    Vec3::new(wave(0.0), wave(-0.36), wave(-0.62)).powf(1.4)
}
