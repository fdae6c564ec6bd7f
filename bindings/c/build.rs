//! What the linker must know of libbbq.so.

fn main() {
    // The number goes up when a program that was linked before would not work; what is only added keeps it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbbq.so.0");
    // Its threads and its handlers at fork and exit must find their code even after a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
