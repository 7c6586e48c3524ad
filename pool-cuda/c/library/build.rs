//! How the library is linked.

fn main() {
    // Programs that are linked to it find it by its name, wherever it is.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpool_cuda.so");
    // Handlers of forks, exits and ends of threads are in it, so it stays once it is loaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
