//! How the library is linked.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpool_cuda_preload.so");
    // Handlers of forks and exits are in it, so it stays once it is loaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The C functions of the pool that it has within are not the program's: they would be taken for those of
    // libpool_cuda.so, and find the driver by name.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    // Where it means its own functions it has them, whatever else is preloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
