//! The same scene, from pools and from a buffer for each slice: the same picture, to the byte.

mod support;

use graphics::{Gpu, Picture, Plain, Pooled, Renderer, Scene, Slice, Store, StoreError, Usage};

const FRAMES: u64 = 6;
const CHANGES: usize = 3;

/// What a scene is after some frames in which objects came and went.
fn drawn(gpu: &Gpu, store: &mut impl Store) -> (Picture, Renderer, Scene) {
    let mut renderer = Renderer::new(gpu, 200, 120);
    let mut scene = Scene::new(5, 3, 1);
    gpu.checked(|| {
        for _ in 0..FRAMES {
            scene.step(store, CHANGES, renderer.aspect()).expect("a frame");
            store.submit(Some(renderer.draw(&scene))).expect("a submission");
        }
    })
    .expect("nothing that wgpu finds invalid");
    (renderer.read().expect("a picture"), renderer, scene)
}

#[test]
fn from_pools_and_from_single_buffers_the_picture_is_the_same() {
    let Some(gpu) = support::gpu() else { return };
    let mut pooled = Pooled::new(&gpu, None).expect("pools");
    let (picture, renderer, mut scene) = drawn(&gpu, &mut pooled);
    let (plain, single, _) = drawn(&gpu, &mut Plain::new(&gpu));
    assert!(picture == plain, "the pictures differ");
    assert!(renderer.draws().buffers_bound < single.draws().buffers_bound / 10);

    // In the corners is the wall, which is dark, and at each place an object, which is not.
    assert!(picture.at(0, 0).is_some_and(|colour| colour.iter().all(|&part| part < 60)));
    let mut places = 0;
    for y in (0..picture.height).filter(|y| y % 40 == 20) {
        for x in (0..picture.width).filter(|x| x % 40 == 20) {
            let near = (y - 12..y + 12).flat_map(|y| (x - 12..x + 12).map(move |x| (x, y)));
            let bright =
                near.filter_map(|(x, y)| picture.at(x, y)).filter(|c| c.iter().any(|&p| p > 110));
            assert!(bright.count() > 20, "no object at {x}, {y}");
            places += 1;
        }
    }
    assert_eq!(places, 15);

    // The memory of objects that went served those that came.
    let made = 15 + (FRAMES - 1) * CHANGES as u64;
    assert_eq!(scene.made(), made);
    assert_eq!(pooled.asked().0, 4 * made + 2);
    for usage in Usage::ALL {
        let stats = pooled.pool(usage).stats();
        assert_eq!((stats.arenas, stats.calls.allocations), (1, 1), "{usage:?}");
    }
    scene.clear(&mut pooled).expect("all of it is the store's");
    pooled.submit(None).expect("a submission");
    for usage in Usage::ALL {
        assert_eq!(pooled.pool(usage).stats().live_bytes, 0, "{usage:?}");
    }
}

#[test]
fn within_a_small_limit_the_host_waits_and_the_picture_is_the_same() {
    let Some(gpu) = support::gpu() else { return };
    let mut free = Pooled::new(&gpu, None).expect("pools");
    let mut tight = Pooled::new(&gpu, Some(2 << 20)).expect("pools");
    let (one, ..) = drawn(&gpu, &mut free);
    let (other, ..) = drawn(&gpu, &mut tight);
    assert!(one == other, "the pictures differ");
    let (uploads, staging) = tight.uploads();
    assert_eq!(staging.peak_reserved_bytes, 2 << 20);
    assert!(uploads.reuses > 0);
}

/// Frees at once what commands use that are recorded, and not submitted.
struct Hasty(Pooled);

impl Store for Hasty {
    fn allocate(&mut self, usage: Usage, size_bytes: u64) -> Result<Slice, StoreError> {
        self.0.allocate(usage, size_bytes)
    }

    fn write(&mut self, slice: &Slice, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.write(slice, bytes)
    }

    fn free(&mut self, slice: Slice) -> Result<(), StoreError> {
        Ok(self.0.pool(slice.usage).free(slice)?)
    }

    fn submit(&mut self, commands: Option<wgpu::CommandBuffer>) -> Result<(), StoreError> {
        self.0.submit(commands)
    }
}

/// Records a frame, lets go of all that is in it, makes another scene, and submits the frame.
fn let_go_before_the_submission(gpu: &Gpu, store: &mut impl Store) -> Picture {
    let mut renderer = Renderer::new(gpu, 200, 120);
    let mut scene = Scene::new(5, 3, 1);
    scene.step(store, 0, renderer.aspect()).expect("a frame");
    let commands = renderer.draw(&scene);
    scene.clear(store).expect("all of it is the store's");
    Scene::new(5, 3, 2).step(store, 0, renderer.aspect()).expect("a frame");
    store.submit(Some(commands)).expect("a submission");
    renderer.read().expect("a picture")
}

/// The control: what is freed too early is drawn wrong, and nothing else says so.
#[test]
fn what_recorded_commands_use_serves_nobody_before_they_are_submitted() {
    let Some(gpu) = support::gpu() else { return };
    let right = let_go_before_the_submission(&gpu, &mut Plain::new(&gpu));
    let pooled = || Pooled::new(&gpu, None).expect("pools");
    assert!(let_go_before_the_submission(&gpu, &mut pooled()) == right, "the pictures differ");
    let wrong = gpu.checked(|| let_go_before_the_submission(&gpu, &mut Hasty(pooled())));
    assert!(wrong.expect("valid calls") != right, "a free before the submission has no effect");
}
