//! Draws a scene whose buffers are cut from pools, without a screen, and says what that took.
//!
//! `graphics --help` lists the options. The exit code is 0 if the picture was drawn, else 1 (2 for a
//! wrong command line).

mod compare;
mod figures;
mod options;

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use graphics::{Gpu, Pooled, Renderer, Scene, Store};

use self::options::Options;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("graphics: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::open()?;
    println!("{}\n", gpu.name);
    draw(&gpu, options)?;
    if options.compare {
        println!("\n{}", compare::buffers(&gpu)?);
        println!("\n{}", compare::uploads(&gpu)?);
    }
    Ok(())
}

fn draw(gpu: &Gpu, options: &Options) -> Result<(), Box<dyn Error>> {
    let mut store = Pooled::new(gpu, Some(options.upload_limit.as_u64()))?;
    let mut renderer = Renderer::new(gpu, options.width, options.height);
    let mut scene = Scene::new(options.columns, options.rows, options.seed);
    let start = Instant::now();
    for _ in 0..options.frames {
        scene.step(&mut store, options.changes, renderer.aspect())?;
        let commands = renderer.draw(&scene);
        store.submit(Some(commands))?;
    }
    let picture = renderer.read()?;
    let elapsed = start.elapsed();
    picture.write(&options.picture)?;
    println!("{}", figures::table(&store));
    println!("\n{}", figures::lines(&store, &scene, renderer.draws(), elapsed));
    println!("\n{}", options.picture.display());
    Ok(())
}
