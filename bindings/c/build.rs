//! Linker arguments of libbbq.so.

fn main() {
    // The number goes up when programs that were linked before would not work. Additions keep it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbbq.so.0");
    // The threads and the handlers at fork and exit need their code even after a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
