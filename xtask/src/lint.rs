//! All checks that run no test.
//!
//! All of them use the release profile, as the tests do, so that build scripts and procedural macros are built once.

use std::path::Path;

use crate::api;
use crate::circles;
use crate::dist::published;
use crate::needs;
use crate::step::{EVERY_SINK, cargo};
use crate::tidy;

pub(crate) fn run(root: &Path) -> Result<(), String> {
    needs::provide_to_build()?;
    tidy::run(root)?;
    circles::run(root)?;
    api::check(root)?;
    cargo(&[], &["fmt", "--all", "--check"])?;
    let clippy = ["clippy", "--release", "--locked", "--all-targets"];
    let clippy_library = ["clippy", "--release", "--locked", "--lib", "--package"];
    let deny = ["--", "-D", "warnings"];
    cargo(&[], &[&clippy[..], &["--workspace", "--features", EVERY_SINK], &deny].concat())?;
    // `cargo run` builds the program without the sinks that are features. Of the whole workspace, as dependencies then have the features
    // that they had above, and are not checked once more.
    cargo(&[], &[&clippy[..], &["--workspace"], &deny].concat())?;
    // In the workspace, other crates and the examples enable the features of these libraries. A user may not.
    for library in ["bbq-listen", "bbq-prefork", "bbq-client"] {
        cargo(&[], &[&clippy_library[..], &[library], &deny].concat())?;
    }
    // What a package lacks shows here, and not on the day of a release. It finds everything in what clippy has downloaded.
    published::pack(&[], &["--offline", "--no-verify"])?;
    let doc = ["doc", "--release", "--locked", "--no-deps", "--workspace", "--features", EVERY_SINK];
    cargo(&[("RUSTDOCFLAGS", "-D warnings")], &doc)
}
