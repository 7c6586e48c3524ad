//! Shapes as triangles.

use core::f32::consts::{PI, TAU};

use bytemuck::{Pod, Zeroable};
use glam::Vec3;

/// A vertex: 32 bytes, a power of two, so that blocks begin at whole ones.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Vertex {
    /// Where it is.
    pub position: [f32; 3],
    /// Which way the surface looks.
    pub normal: [f32; 3],
    /// Where it is on the surface: around, and along.
    pub surface: [f32; 2],
}

/// A surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A ball.
    Sphere,
    /// A ring.
    Torus,
    /// A cube with round edges.
    Cube,
    /// A knot with three leaves.
    Knot,
    /// A ball with waves.
    Blossom,
    /// An hourglass.
    Spindle,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Sphere, Self::Torus, Self::Cube, Self::Knot, Self::Blossom, Self::Spindle];

    /// The point at a place on the surface, both coordinates from 0 to 1.
    fn point(self, around: f32, along: f32) -> Vec3 {
        let (u, v) = (around * TAU, along * PI);
        let ball = |radius: f32| radius * Vec3::new(v.sin() * u.cos(), v.cos(), v.sin() * u.sin());
        match self {
            Self::Sphere => ball(0.92),
            Self::Blossom => ball(0.8 + 0.16 * (5.0 * u).sin() * v.sin().powi(2)),
            Self::Torus => {
                let (w, ring, tube) = (along * TAU, 0.66, 0.3);
                let far = ring + tube * w.cos();
                Vec3::new(far * u.cos(), tube * w.sin(), -far * u.sin())
            }
            Self::Cube => {
                // A superquadric: sines and cosines, nearer to their signs.
                let flat = |x: f32| x.signum() * x.abs().powf(0.4);
                let radius = flat(v.sin());
                0.72 * Vec3::new(radius * flat(u.cos()), flat(v.cos()), radius * flat(u.sin()))
            }
            Self::Spindle => {
                let height = v.cos();
                let end = (1.0 - height.abs().powi(12)).max(0.0).sqrt();
                let radius = end * (0.22 + 0.5 * height * height);
                Vec3::new(radius * u.cos(), 0.9 * height, radius * u.sin())
            }
            Self::Knot => knot(u, along * TAU),
        }
    }

    /// Across two short steps on the surface.
    fn normal(self, u: f32, v: f32) -> Vec3 {
        const STEP: f32 = 1e-3;
        // At the ends of a ball a step around has no length.
        let v = v.clamp(4.0 * STEP, 1.0 - 4.0 * STEP);
        let around = self.point(u + STEP, v) - self.point(u - STEP, v);
        let along = self.point(u, v + STEP) - self.point(u, v - STEP);
        around.cross(along).normalize_or_zero()
    }
}

/// A tube around a trefoil.
fn knot(u: f32, w: f32) -> Vec3 {
    let line = |u: f32| {
        let far = 0.52 + 0.24 * (3.0 * u).cos();
        Vec3::new(far * (2.0 * u).cos(), far * (2.0 * u).sin(), 0.3 * (3.0 * u).sin())
    };
    let forward = (line(u + 0.01) - line(u)).normalize();
    let side = forward.cross(Vec3::Z).normalize();
    let up = side.cross(forward);
    line(u) + 0.15 * (w.cos() * side + w.sin() * up)
}

/// Triangles.
#[derive(Clone, Debug, Default)]
pub struct Mesh {
    /// Their corners.
    pub vertices: Vec<Vertex>,
    /// Three for each triangle, counter-clockwise seen from outside.
    pub indices: Vec<u16>,
}

impl Mesh {
    /// A surface in `detail` steps around and half as many along: 4 to 300.
    ///
    /// # Example
    ///
    /// ```
    /// use graphics::{Mesh, Shape};
    ///
    /// let sphere = Mesh::new(Shape::Sphere, 16);
    /// assert_eq!((sphere.vertices.len(), sphere.indices.len()), (17 * 9, 16 * 8 * 6));
    /// ```
    #[must_use]
    pub fn new(shape: Shape, detail: u16) -> Self {
        let around = detail.clamp(4, 300);
        let along = around / 2;
        let mut mesh = Self::default();
        for row in 0..=along {
            for column in 0..=around {
                let (u, v) = (part(column, around), part(row, along));
                mesh.vertices.push(Vertex {
                    position: shape.point(u, v).into(),
                    normal: shape.normal(u, v).into(),
                    surface: [u, v],
                });
            }
        }
        for row in 0..along {
            for column in 0..around {
                let first = row * (around + 1) + column;
                let below = first + around + 1;
                mesh.indices.extend([first, first + 1, below, below, first + 1, below + 1]);
            }
        }
        mesh
    }
}

fn part(index: u16, count: u16) -> f32 {
    f32::from(index) / f32::from(count)
}
