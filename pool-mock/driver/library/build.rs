//! How the library is linked.

fn main() {
    // What it calls of itself is its own, as in the real one, also where a program was told to find
    // functions of these names elsewhere first.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
